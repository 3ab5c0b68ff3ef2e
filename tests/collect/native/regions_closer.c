#include <pasta.h>

void close_in_c(void);

void close_in_c(void) { pasta_end(); }
