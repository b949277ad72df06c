/* Records what a process does to the files of its store, in the order in which it does it. To be preloaded.
 *
 * RECORDED_DIRECTORY  the directory of the store
 * RECORDED_IN         the file to which records are appended
 * RECORDED_DELAY      a sync takes up to so many microseconds longer
 * RECORDED_FAULT      "NAME NUMBER": this sync of this file fails
 *
 * A process that writes "end" to a file there ends at once, as by SIGKILL and between two records.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, TRUNCATE, SYNC_BEGINS, SYNC_ENDS, SYNC_FAILS, UNLINK };
enum { DESCRIPTORS = 1024 };

struct record {
	uint64_t kind, thread, sync, inode, at, length, name_length;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int records = -1;
static char directory[PATH_MAX], fault[PATH_MAX];
static int fault_at, delay;
static unsigned seed = 1;
static uint64_t syncs;
static char owes_failure[DESCRIPTORS];

__attribute__((constructor)) static void start(void)
{
	const char *in = getenv("RECORDED_IN"), *slow = getenv("RECORDED_DELAY"), *failing = getenv("RECORDED_FAULT");
	if (!in || !getenv("RECORDED_DIRECTORY") || !realpath(getenv("RECORDED_DIRECTORY"), directory))
		return;
	records = syscall(SYS_openat, AT_FDCWD, in, O_WRONLY | O_APPEND | O_CLOEXEC);
	delay = slow ? atoi(slow) : 0;
	seed = getpid();
	if (failing)
		sscanf(failing, "%s %d", fault, &fault_at);
}

/* Other processes of the same recording wait as well. */
static void lock(void)
{
	pthread_mutex_lock(&mutex);
	flock(records, LOCK_EX);
}

static void unlock(void)
{
	flock(records, LOCK_UN);
	pthread_mutex_unlock(&mutex);
}

/* The part of a path behind the directory, "." for itself; NULL for what no power cut can lose. */
static const char *name_of_path(const char *path)
{
	size_t length = strlen(directory);
	if (strncmp(path, directory, length))
		return NULL;
	if (!path[length])
		return ".";
	if (path[length] != '/' || strstr(path, "-shm") || strstr(path, ".lock"))
		return NULL;
	return path + length + 1;
}

static const char *name_of(int fd, char path[PATH_MAX])
{
	char link[64];
	if (records < 0)
		return NULL;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, path, PATH_MAX - 1);
	if (length <= 0)
		return NULL;
	path[length] = 0;
	return name_of_path(path);
}

static void record(struct record record, const char *name, const void *data)
{
	record.thread = syscall(SYS_gettid);
	record.name_length = strlen(name);
	struct iovec parts[] = { { &record, sizeof record },
				 { (void *)name, record.name_length },
				 { (void *)data, data ? record.length : 0 } };
	if (syscall(SYS_writev, records, parts, 3) < (long)sizeof record)
		abort();
}

static uint64_t inode_of(int fd)
{
	struct stat found;
	return fstat(fd, &found) ? 0 : found.st_ino;
}

static ssize_t write_at(int fd, const void *data, size_t length, off_t at, int moves)
{
	char path[PATH_MAX];
	const char *name = name_of(fd, path);
	if (!name)
		return moves ? syscall(SYS_write, fd, data, length) : syscall(SYS_pwrite64, fd, data, length, at);
	lock();
	if (length == 3 && !memcmp(data, "end", 3))
		kill(getpid(), SIGKILL);
	if (moves)
		at = syscall(SYS_lseek, fd, 0, SEEK_CUR);
	ssize_t written = moves ? syscall(SYS_write, fd, data, length) : syscall(SYS_pwrite64, fd, data, length, at);
	int error = errno;
	if (written > 0)
		record((struct record){ WRITE, 0, 0, inode_of(fd), at, written, 0 }, name, data);
	unlock();
	errno = error;
	return written;
}

ssize_t write(int fd, const void *data, size_t length)
{
	return write_at(fd, data, length, 0, 1);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at)
{
	return write_at(fd, data, length, at, 0);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at)
{
	return write_at(fd, data, length, at, 0);
}

int ftruncate64(int fd, off64_t length)
{
	char path[PATH_MAX];
	const char *name = name_of(fd, path);
	if (!name)
		return syscall(SYS_ftruncate, fd, length);
	lock();
	int outcome = syscall(SYS_ftruncate, fd, length);
	if (!outcome)
		record((struct record){ TRUNCATE, 0, 0, inode_of(fd), 0, length, 0 }, name, NULL);
	unlock();
	return outcome;
}

int ftruncate(int fd, off_t length)
{
	return ftruncate64(fd, length);
}

/* The kernel tells a failed write to each descriptor that was open then, once. */
static void owe_failure(const char *name)
{
	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		char path[PATH_MAX];
		const char *found = name_of(fd, path);
		owes_failure[fd] |= found && !strcmp(found, name);
	}
}

static int sync_of(int fd, long call)
{
	char path[PATH_MAX];
	const char *name = name_of(fd, path);
	if (!name || fd >= DESCRIPTORS)
		return syscall(call, fd);
	lock();
	uint64_t sync = ((uint64_t)getpid() << 32) + ++syncs, inode = inode_of(fd);
	int fails = !strcmp(name, fault) && --fault_at == 0, pause = delay ? rand_r(&seed) % delay : 0;
	record((struct record){ SYNC_BEGINS, 0, sync, inode, 0, 0, 0 }, name, NULL);
	unlock();
	usleep(pause);
	lock();
	if (fails) {
		record((struct record){ SYNC_FAILS, 0, sync, inode, 0, 0, 0 }, name, NULL);
		owe_failure(name);
	}
	int outcome = owes_failure[fd] ? -1 : 0;
	owes_failure[fd] = 0;
	if (!outcome)
		record((struct record){ SYNC_ENDS, 0, sync, inode, 0, 0, 0 }, name, NULL);
	unlock();
	errno = outcome ? EIO : errno;
	return outcome;
}

int close(int fd)
{
	if (fd >= 0 && fd < DESCRIPTORS)
		owes_failure[fd] = 0;
	return syscall(SYS_close, fd);
}

int fsync(int fd)
{
	return sync_of(fd, SYS_fsync);
}

int fdatasync(int fd)
{
	return sync_of(fd, SYS_fdatasync);
}

int unlink(const char *path)
{
	const char *name = records < 0 ? NULL : name_of_path(path);
	struct stat found;
	if (!name || stat(path, &found))
		return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
	lock();
	int outcome = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
	if (!outcome)
		record((struct record){ UNLINK, 0, 0, found.st_ino, 0, 0, 0 }, name, NULL);
	unlock();
	return outcome;
}
