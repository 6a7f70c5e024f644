/* What a source that is compiled once a size and a type is told: SIZE, ELEMENT, PREFIX; and KIND, which it says itself.
   NAME(dsyrk) is PREFIX KIND dsyrk _ SIZE in one word. */
#define JOIN_(a, b, c, d) a##b##c##_##d
#define JOIN(a, b, c, d) JOIN_(a, b, c, d)
#define NAME(c) JOIN(PREFIX, KIND, c, SIZE)

typedef ELEMENT T;
enum { N = SIZE };
