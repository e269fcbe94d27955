/* Thread-local data of less than a word, which the loader takes from malloc. */
static __thread int calls;

int use(void) { return ++calls; }
