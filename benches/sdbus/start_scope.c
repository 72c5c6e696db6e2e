/* The peer of benches/start.rs: the least that a C program with sd-bus does to have a process inside a scope.
 *
 * It waits for its job as it should (match first, JobRemoved of the job that the reply named) and then asks the
 * kernel whether the process is inside. Timed is exactly that: from the making of the message to the reading of
 * /proc/PID/cgroup. Making and killing processes and cleaning up are outside of the timed part.
 *
 *   start_scope --address ADDRESS [--private] [--property NAME:TYPE:VALUE]... [--pids PIDs|PIDFDs] [--count N]
 *
 * ADDRESS is a D-Bus address: a message bus, or with --private systemd's own socket, which is no bus (no Hello).
 * TYPE is s, b, u or t. The properties are sent in the order given, then the processes, as PIDs (au) or PIDFDs (ah).
 *
 * Without --count it is driven through stdin, so that another program can interleave its own starts with these. Each
 * line has one answer: `start PID UNIT` the time in nanoseconds, `gone UNIT` 0 once the name is free, and either
 * `error TEXT`. With --count it makes its own processes and units, and prints one time a start.
 *
 *   With --exec COMMAND it puts itself into a scope and becomes the command.
 *
 *   start_scope --pause    is the process to be put into scopes: says it runs by one byte on stdout, then waits for
 *                          the end of its stdin.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>
#include <time.h>
#include <unistd.h>

#define DESTINATION "org.freedesktop.systemd1"
#define OBJECT "/org/freedesktop/systemd1"
#define MANAGER "org.freedesktop.systemd1.Manager"
#define MAX_PROPERTIES 32
#define CALL_TIMEOUT_USEC (30 * UINT64_C(1000000))

struct property {
        const char *name;
        char type;
        const char *value;
};

static struct property properties[MAX_PROPERTIES];
static size_t n_properties;
static bool use_pidfds;

/* What the match has seen. One start at a time, so one expected job; a signal that comes before the reply is kept. */
static char removed_job[256];
static char removed_result[64];

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        uint32_t id;
        const char *job, *unit, *result;

        (void) userdata;
        (void) error;
        if (sd_bus_message_read(m, "uoss", &id, &job, &unit, &result) < 0)
                return 0;
        snprintf(removed_job, sizeof removed_job, "%s", job);
        snprintf(removed_result, sizeof removed_result, "%s", result);
        return 0;
}

static uint64_t now_nsec(void) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * UINT64_C(1000000000) + (uint64_t) t.tv_nsec;
}

static int append_property(sd_bus_message *m, const struct property *p) {
        const char type[2] = { p->type, 0 };
        int r;

        r = sd_bus_message_open_container(m, 'r', "sv");
        if (r >= 0)
                r = sd_bus_message_append(m, "s", p->name);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'v', type);
        if (r < 0)
                return r;
        switch (p->type) {
        case 's':
                r = sd_bus_message_append(m, "s", p->value);
                break;
        case 'b':
                r = sd_bus_message_append(m, "b", !strcmp(p->value, "true"));
                break;
        case 'u':
                r = sd_bus_message_append(m, "u", (uint32_t) strtoul(p->value, NULL, 10));
                break;
        case 't':
                r = sd_bus_message_append(m, "t", (uint64_t) strtoull(p->value, NULL, 10));
                break;
        default:
                return -EINVAL;
        }
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r;
}

static int append_process(sd_bus_message *m, pid_t pid, int pidfd) {
        if (use_pidfds)
                return sd_bus_message_append(m, "(sv)", "PIDFDs", "ah", 1, pidfd);
        return sd_bus_message_append(m, "(sv)", "PIDs", "au", 1, (uint32_t) pid);
}

/* Is the unit's name one component of a line of /proc/PID/cgroup? */
static int inside(pid_t pid, const char *unit) {
        char path[64], text[8192];
        size_t length = strlen(unit);
        ssize_t n;
        int fd;

        snprintf(path, sizeof path, "/proc/%d/cgroup", (int) pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        n = read(fd, text, sizeof text - 1);
        close(fd);
        if (n < 0)
                return -errno;
        text[n] = 0;
        for (const char *p = text; (p = strstr(p, unit)); p++)
                if (p > text && p[-1] == '/' && (p[length] == '\n' || p[length] == '/' || p[length] == 0))
                        return 1;
        return 0;
}

/* Does the manager know the unit? A round trip. */
static int known(sd_bus *bus, const char *unit) {
        sd_bus_error error = SD_BUS_ERROR_NULL;
        int r = sd_bus_call_method(bus, DESTINATION, OBJECT, MANAGER, "GetUnit", &error, NULL, "s", unit);
        bool gone = r < 0 && sd_bus_error_has_name(&error, "org.freedesktop.systemd1.NoSuchUnit");

        sd_bus_error_free(&error);
        return gone ? 0 : r < 0 ? r : 1;
}

/* Until the name is free again: each start finds the manager as the first one did. */
static int wait_gone(sd_bus *bus, const char *unit) {
        for (int i = 0; i < 5000; i++) {
                int r = known(bus, unit);

                if (r <= 0)
                        return r;
                usleep(1000);
        }
        return -ETIMEDOUT;
}

/* After this round trip nothing older is unread: signals of other starts, which all come on the private socket, would
 * else be read inside the timed part. */
static void settle(sd_bus *bus, const char *unit) {
        (void) known(bus, unit);
        while (sd_bus_process(bus, NULL) > 0)
                ;
}

/* One start. Returns 0 and the time, or fills in `why`. */
static int start(sd_bus *bus, pid_t pid, const char *unit, uint64_t *nsec, char *why, size_t why_size) {
        sd_bus_error error = SD_BUS_ERROR_NULL;
        sd_bus_message *m = NULL, *reply = NULL;
        const char *job;
        uint64_t begin;
        int pidfd = -1, r;

        if (use_pidfds) {
                pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
                if (pidfd < 0) {
                        snprintf(why, why_size, "pidfd_open: %s", strerror(errno));
                        return -1;
                }
        }
        settle(bus, unit);
        removed_job[0] = 0;

        begin = now_nsec();
        r = sd_bus_message_new_method_call(bus, &m, DESTINATION, OBJECT, MANAGER, "StartTransientUnit");
        if (r >= 0)
                r = sd_bus_message_append(m, "ss", unit, "fail");
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "(sv)");
        for (size_t i = 0; r >= 0 && i < n_properties; i++)
                r = append_property(m, &properties[i]);
        if (r >= 0)
                r = append_process(m, pid, pidfd);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        if (r >= 0)
                r = sd_bus_message_append(m, "a(sa(sv))", 0);
        if (r >= 0)
                r = sd_bus_call(bus, m, CALL_TIMEOUT_USEC, &error, &reply);
        if (r >= 0)
                r = sd_bus_message_read(reply, "o", &job);
        if (r < 0) {
                snprintf(why, why_size, "%s", error.message ? error.message : strerror(-r));
                goto finish;
        }
        while (strcmp(removed_job, job)) {
                r = sd_bus_process(bus, NULL);
                if (r == 0)
                        r = sd_bus_wait(bus, CALL_TIMEOUT_USEC);
                if (r < 0 || now_nsec() - begin > CALL_TIMEOUT_USEC * 1000) {
                        snprintf(why, why_size, "no JobRemoved: %s", r < 0 ? strerror(-r) : "timed out");
                        r = -1;
                        goto finish;
                }
        }
        if (strcmp(removed_result, "done")) {
                snprintf(why, why_size, "the job ended in %s", removed_result);
                r = -1;
                goto finish;
        }
        r = inside(pid, unit);
        *nsec = now_nsec() - begin;
        if (r <= 0) {
                snprintf(why, why_size, "the process is not inside");
                r = -1;
        }
finish:
        sd_bus_error_free(&error);
        sd_bus_message_unref(m);
        sd_bus_message_unref(reply);
        if (pidfd >= 0)
                close(pidfd);
        return r < 0 ? -1 : 0;
}

static int count_starts(sd_bus *bus, unsigned long count) {
        for (unsigned long i = 0; i < count; i++) {
                char unit[128], why[256];
                uint64_t nsec;
                pid_t pid;
                int r;

                pid = fork();
                if (pid < 0) {
                        perror("fork");
                        return 1;
                }
                if (pid == 0) {
                        prctl(PR_SET_PDEATHSIG, SIGKILL);
                        for (;;)
                                pause();
                }
                snprintf(unit, sizeof unit, "sdbus-%d-%lu.scope", (int) getpid(), i);
                r = start(bus, pid, unit, &nsec, why, sizeof why);
                kill(pid, SIGKILL);
                waitpid(pid, NULL, 0);
                if (r < 0) {
                        fprintf(stderr, "%s: %s\n", unit, why);
                        return 1;
                }
                printf("%" PRIu64 "\n", nsec);
                if (wait_gone(bus, unit) < 0) {
                        fprintf(stderr, "%s is still there\n", unit);
                        return 1;
                }
        }
        return 0;
}

static int serve(sd_bus *bus) {
        char line[512];

        while (fgets(line, sizeof line, stdin)) {
                char unit[256], why[512];
                uint64_t nsec = 0;
                int pid, r;

                if (sscanf(line, "start %d %255s", &pid, unit) == 2)
                        r = start(bus, pid, unit, &nsec, why, sizeof why);
                else if (sscanf(line, "gone %255s", unit) == 1) {
                        r = wait_gone(bus, unit);
                        snprintf(why, sizeof why, "%s is still there", unit);
                } else {
                        r = -1;
                        snprintf(why, sizeof why, "the line is neither `start PID UNIT` nor `gone UNIT`");
                }
                if (r < 0)
                        printf("error %s\n", why);
                else
                        printf("%" PRIu64 "\n", nsec);
                fflush(stdout);
        }
        return 0;
}

static int wait_for_end(void) {
        char c;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (write(STDOUT_FILENO, "x", 1) != 1)
                return 1;
        while (read(STDIN_FILENO, &c, 1) > 0)
                ;
        return 0;
}

/* What `systemd-run --scope` and `scopectl run` do, and nothing else: itself into a scope, then the command. */
static int become(sd_bus *bus, char *command) {
        char unit[128], why[256], *argv[] = { command, NULL };
        uint64_t nsec;

        snprintf(unit, sizeof unit, "sdbus-%d.scope", (int) getpid());
        if (start(bus, getpid(), unit, &nsec, why, sizeof why) < 0) {
                fprintf(stderr, "%s: %s\n", unit, why);
                return 1;
        }
        execvp(command, argv);
        perror(command);
        return 1;
}

static int usage(const char *text) {
        fprintf(stderr, "start_scope: %s\n", text);
        return 2;
}

int main(int argc, char **argv) {
        const char *address = NULL;
        char *command = NULL;
        unsigned long count = 0;
        bool private = false;
        sd_bus *bus = NULL;
        int r;

        if (argc == 2 && !strcmp(argv[1], "--pause"))
                return wait_for_end();
        for (int i = 1; i < argc; i++) {
                char *value = i + 1 < argc ? argv[i + 1] : NULL;

                if (!strcmp(argv[i], "--private")) {
                        private = true;
                        continue;
                }
                if (!value)
                        return usage("an option lacks its value");
                i++;
                if (!strcmp(argv[i - 1], "--address"))
                        address = value;
                else if (!strcmp(argv[i - 1], "--count"))
                        count = strtoul(value, NULL, 10);
                else if (!strcmp(argv[i - 1], "--exec"))
                        command = value;
                else if (!strcmp(argv[i - 1], "--pids"))
                        use_pidfds = !strcmp(value, "PIDFDs");
                else if (!strcmp(argv[i - 1], "--property")) {
                        char *type = strchr(value, ':');

                        if (!type || !type[1] || type[2] != ':' || n_properties == MAX_PROPERTIES)
                                return usage("--property takes NAME:TYPE:VALUE, 32 times at most");
                        *type = 0;
                        properties[n_properties++] = (struct property) { value, type[1], type + 3 };
                } else
                        return usage("unknown option");
        }
        if (!address)
                return usage("--address is missing");

        r = sd_bus_new(&bus);
        if (r >= 0)
                r = sd_bus_set_address(bus, address);
        if (r >= 0)
                r = sd_bus_set_bus_client(bus, !private);
        if (r >= 0)
                r = sd_bus_negotiate_fds(bus, true);
        if (r >= 0)
                r = sd_bus_start(bus);
        /* systemd's own socket stamps no sender. */
        if (r >= 0)
                r = sd_bus_match_signal(bus, NULL, private ? NULL : DESTINATION, OBJECT, MANAGER, "JobRemoved",
                                        on_job_removed, NULL);
        if (r < 0) {
                fprintf(stderr, "start_scope: cannot connect to %s: %s\n", address, strerror(-r));
                return 1;
        }
        r = command ? become(bus, command) : count > 0 ? count_starts(bus, count) : serve(bus);
        sd_bus_flush_close_unref(bus);
        return r;
}
