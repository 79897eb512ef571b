/* A wall clock that jumps, for one process. When preloaded, it adds to each reading the seconds in the file named
 * by WEIR_CLOCK, a 64-bit integer. Monotonic time is not changed.
 *
 * Written in C because it must not allocate: Envoy's allocator reads the clock itself. (libfaketime does the same
 * and much more, but looks symbols up at the first reading, and hangs in that allocator.) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead_s;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("WEIR_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof *ahead_s, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) ahead_s = page;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, clock, now);
  int wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (!failed && wall && ahead_s) now->tv_sec += *ahead_s;
  return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec precise;
  (void)zone;
  int failed = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return failed;
}

time_t time(time_t *copy) {
  struct timespec now;
  time_t seconds = clock_gettime(CLOCK_REALTIME, &now) ? (time_t)-1 : now.tv_sec;
  if (copy) *copy = seconds;
  return seconds;
}
