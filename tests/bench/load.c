/* A load generator for AMQP 0-9-1 brokers that costs next to nothing itself.
 *
 * One thread and edge-triggered epoll. Every publisher owns a run of ready frames, made once, and
 * writes slices of it straight from there: only the time in each body and the numbers in
 * properties are set anew. A consumer walks over the frames where they were received. What is
 * measured starts after `--warmup` seconds and lasts `--seconds`, or until SIGTERM; then the
 * publishers stop, and for at most `--drain` seconds the consumers take what is still queued, and
 * the publishers the confirms that are missing, so that the broker's work can be divided by all that
 * was consumed. `--idle N` and `--declare N` do something else: see `hold_idle` and `declare_many`.
 * One JSON object goes to stdout. SIGALRM ends a run that takes longer than `--limit` seconds.
 *
 *     cc -std=c11 -O2 -o load load.c
 *     ./load --port 5672 --size 1024 --auto-ack --seconds 5
 */
#define _GNU_SOURCE
#include "consumer.h"
#include "options.h"
#include "publisher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { EVENTS = 64, MILLISECOND = 1000000, PACE_NS = MILLISECOND, WAIT_NS = 50 * MILLISECOND };

struct session {
    int control, poller;
    struct publisher *publishers;
    struct consumer *consumers;
    uint64_t started;
};

/* ---- setting up and clearing away ---- */

static volatile sig_atomic_t stopped;

static void declare_queues(int fd)
{
    for (int i = 0; i < options.queues && !options.declared; i++) {
        int flags = options.durable ? QUEUE_DURABLE : QUEUE_AUTO_DELETE;
        call_declare_queue(fd, queue_name(i), flags, options.lazy);
    }
}

/* The low bit of what epoll hands back tells a consumer from a publisher. */
static void watch(int poller, int fd, void *owner, bool consumes)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLET,
        .data.u64 = (uint64_t)(uintptr_t)owner | consumes,
    };
    if (fcntl(fd, F_SETFL, O_NONBLOCK) || epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event))
        fail("cannot watch a socket: %s", strerror(errno));
}

static void open_session(struct session *self)
{
    self->control = open_channels(&options.peer, 1);
    declare_queues(self->control);
    load_forms();
    self->poller = epoll_create1(EPOLL_CLOEXEC);
    self->consumers = calloc((size_t)options.consumers + 1, sizeof *self->consumers);
    self->publishers = calloc((size_t)options.publishers + 1, sizeof *self->publishers);
    for (int i = 0; i < options.consumers; i++) {
        open_consumer(self->consumers + i, i);
        watch(self->poller, self->consumers[i].fd, self->consumers + i, true);
    }
    for (int i = 0; i < options.publishers; i++) {
        open_publisher(self->publishers + i, i);
        watch(self->poller, self->publishers[i].fd, self->publishers + i, false);
    }
    self->started = clock_ns();
}

static void close_session(struct session *self)
{
    for (int i = 0; i < options.queues && !options.keep && !options.declared; i++)
        call_delete_queue(self->control, queue_name(i));
    call_close(self->control);
}

/* ---- the loop ---- */

static void handle(const struct epoll_event *event)
{
    uint64_t tagged = event->data.u64;
    void *owner = (void *)(uintptr_t)(tagged & ~(uint64_t)1);
    bool readable = event->events & (EPOLLIN | EPOLLHUP | EPOLLERR);
    if (tagged & 1) {
        struct consumer *consumer = owner;
        if (readable)
            read_deliveries(consumer);
        else
            send_output(consumer);
    } else {
        struct publisher *publisher = owner;
        if (readable)
            read_answers(publisher);
        publisher->writable |= (event->events & EPOLLOUT) != 0;
    }
}

/* For how long to wait for something to come: with `--spaced` until the next message is due. */
static int64_t patience_ns(const struct session *self, bool publishing)
{
    if (options.rate <= 0)
        return WAIT_NS;
    if (!options.spaced || !publishing)
        return PACE_NS;
    int64_t elapsed = (int64_t)(clock_ns() - self->started), wait = PACE_NS;
    for (int i = 0; i < options.publishers; i++)
        wait = least(wait, due_at(self->publishers + i) - elapsed);
    return wait > 0 ? wait : 0;
}

/* Takes what has come and lets every publisher send once; true if one could send more at once. */
static bool turn(struct session *self, bool busy, bool publishing)
{
    struct epoll_event events[EVENTS];
    struct timespec patience = {.tv_nsec = busy ? 0 : patience_ns(self, publishing)};
    int count = epoll_pwait2(self->poller, events, EVENTS, &patience, NULL);
    for (int i = 0; i < count; i++)
        handle(events + i);
    busy = false;
    for (int i = 0; i < options.publishers; i++) {
        struct publisher *publisher = self->publishers + i;
        if (publishing || publisher->unsent < publisher->unsent_end)
            busy |= publish(publisher, self->started);
    }
    return busy && options.rate <= 0;
}

/* Goes on beyond the end until something is published: a busy machine may let other programs run
 * for longer than a short run lasts. */
static void run_until(struct session *self, uint64_t end)
{
    bool busy = true;
    while (!stopped && (clock_ns() < end || (options.publishers && !total.published)))
        busy = turn(self, busy, true);
}

/* Whether every message has come back as often as it was copied and, with a window, is confirmed or
 * refused: the last confirms may come after the last deliveries. */
static bool all_back(void)
{
    bool settled = !options.window || total.confirmed + total.refused >= total.published;
    return settled && total.consumed >= total.published * (uint64_t)options.copies;
}

/* Takes what is queued, and the confirms; returns whether all of it came in time. */
static bool drain(struct session *self)
{
    uint64_t end = clock_ns() + (uint64_t)(options.drain * 1e9);
    bool complete = false;
    while (!complete && options.copies && clock_ns() < end) {
        complete = all_back();
        if (!complete)
            turn(self, false, false);
    }
    return complete;
}

static double own_cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
           + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* The share of the deliveries that were due by what was published while it was measured. What fills
 * the sockets' buffers before that does not count as a queue that grows. */
static double delivered_share(const struct counts *before, const struct counts *after)
{
    double due = (double)(after->published - before->published) * options.copies;
    return due > 0 ? (double)(after->consumed - before->consumed) / due : 0;
}

static void print_result(const struct counts *before, const struct counts *after, double seconds,
                         bool drained)
{
    printf("{\"seconds\": %.4f, \"publish_rate\": %.1f, \"consume_rate\": %.1f, ", seconds,
           (double)(after->published - before->published) / seconds,
           (double)(after->consumed - before->consumed) / seconds);
    printf("\"published\": %llu, \"consumed\": %llu, \"confirmed\": %llu, \"refused\": %llu, ",
           (unsigned long long)total.published, (unsigned long long)total.consumed,
           (unsigned long long)total.confirmed, (unsigned long long)total.refused);
    printf("\"delivered\": %.4f, ", delivered_share(before, after));
    printf("\"drained\": %s, \"generator_cpu_seconds\": %.6f, ", drained ? "true" : "false",
           own_cpu_seconds());
    printf("\"latency_us\": {\"samples\": %llu, \"p50\": %.1f, \"p95\": %.1f, ",
           (unsigned long long)latency.samples, latency_quantile(&latency, 0.50),
           latency_quantile(&latency, 0.95));
    printf("\"p99\": %.1f, \"p999\": %.1f, \"longest\": %.1f}}\n",
           latency_quantile(&latency, 0.99), latency_quantile(&latency, 0.999),
           (double)latency.longest_ns / 1e3);
}

static void put_load(void)
{
    struct session session = {0};
    open_session(&session);
    run_until(&session, session.started + (uint64_t)(options.warmup * 1e9));
    struct counts before = total;
    uint64_t since = clock_ns();
    measuring = true;
    run_until(&session, since + (uint64_t)(options.seconds * 1e9));
    struct counts after = total;
    double seconds = (double)(clock_ns() - since) / 1e9;
    measuring = false;
    bool drained = drain(&session);
    close_session(&session);
    print_result(&before, &after, seconds, drained);
}

/* ---- the other modes ---- */

static bool all_done(void)
{
    uint64_t wanted = (uint64_t)options.count;
    if (!options.publishers)
        return total.consumed >= wanted;
    wanted -= wanted % (uint64_t)options.publishers;
    return total.published >= wanted
           && (!options.window || total.confirmed + total.refused >= wanted);
}

/* Publishes `--count` messages and has them confirmed or, without publishers, consumes so many. */
static void move_count(void)
{
    struct session session = {0};
    struct counts before = {0};
    open_session(&session);
    bool busy = true;
    while (!all_done())
        busy = turn(&session, busy, true);
    double seconds = (double)(clock_ns() - session.started) / 1e9;
    close_session(&session);
    print_result(&before, &total, seconds, true);
}

/* Holds `--idle` connections with one channel each until stdin is closed. */
static void hold_idle(void)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    uint64_t since = clock_ns();
    for (int i = 0; i < options.idle; i++)
        open_channels(&options.peer, 1);
    printf("{\"idle\": %d, \"seconds\": %.4f}\n", options.idle, (double)(clock_ns() - since) / 1e9);
    fflush(stdout);
    char ignored[256];
    while (read(STDIN_FILENO, ignored, sizeof ignored) > 0)
        continue;
}

/* Declares `--declare` queues one after the other; they go with the connection unless durable. */
static void declare_many(void)
{
    int flags = options.durable ? QUEUE_DURABLE : QUEUE_EXCLUSIVE;
    int fd = open_channels(&options.peer, 1);
    uint64_t since = clock_ns();
    for (int i = 0; i < options.declare; i++)
        call_declare_queue(fd, queue_name(i), flags, false);
    double seconds = (double)(clock_ns() - since) / 1e9;
    call_close(fd);
    printf("{\"declared\": %d, \"seconds\": %.4f}\n", options.declare, seconds);
}

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

static void give_up(int signal_number)
{
    static const char line[] = "load: gave up after the time that --limit allows\n";
    (void)signal_number;
    _exit(write(STDERR_FILENO, line, sizeof line - 1) < 0 ? 4 : 3);
}

int main(int count, char **arguments)
{
    parse_options(count, arguments);
    signal(SIGALRM, give_up);
    signal(SIGTERM, stop);
    prctl(PR_SET_TIMERSLACK, 1000ul); /* a paced message goes out within a microsecond */
    alarm((unsigned)options.limit);
    if (options.idle)
        hold_idle();
    else if (options.declare)
        declare_many();
    else if (options.count)
        move_count();
    else
        put_load();
    return 0;
}
