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
