/* Time of a call, measured in machine code; and the time of a processor cycle, measured beside it. */
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

/* Nanoseconds a call of f on `arity` pointers, over `repeats` calls; the arguments rotate through `copies` sets. */
double time_calls(void *f, int arity, void **arguments, int copies, long repeats) {
    double start = now();
    int at = 0;
    for (long r = 0; r < repeats; r++) {
        void **a = arguments + at * arity;
        if (arity == 2) ((void (*)(void *, void *))f)(a[0], a[1]);
        else if (arity == 3) ((void (*)(void *, void *, void *))f)(a[0], a[1], a[2]);
        else if (arity == 4) ((void (*)(void *, void *, void *, void *))f)(a[0], a[1], a[2], a[3]);
        else ((void (*)(void *, void *, void *, void *, void *))f)(a[0], a[1], a[2], a[3], a[4]);
        if (++at == copies) at = 0;
    }
    return (now() - start) / repeats;
}

/* Nanoseconds a cycle: a chain of additions, each of which waits one cycle for the one before. */
double cycle(void) {
    unsigned long x = 1;
    double start = now();
    for (long i = 0; i < 20000; i++)
        __asm__ volatile("add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n"
                         "add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n" : "+r"(x));
    return (now() - start) / 200000;
}

/* Cycles that a core of its own hides: the time of eight independent operations, among them two loads, in units of one
   dependent addition. Two processes that share a core's units raise it: what is timed then belongs to both. */
double crowding(void) {
    static unsigned long memory[16];
    unsigned long a = 1, b = 1, c = 1, d = 1, x = 1;
    double start = now();
    for (long i = 0; i < 2000; i++)
        __asm__ volatile("add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n" : "+r"(x));
    double chain = now() - start;
    start = now();
    for (long i = 0; i < 2000; i++)
#define GROUP "add $1, %0\n add $1, %1\n add $1, %2\n add $1, %3\n nop\n mov (%4), %%r8\n mov 64(%4), %%r9\n nop\n"
        __asm__ volatile(GROUP GROUP GROUP GROUP GROUP
                         : "+r"(a), "+r"(b), "+r"(c), "+r"(d) : "r"(memory) : "r8", "r9");
    return (now() - start) / chain;
}
