/* A load generator for AMQP 0-9-1 brokers that costs next to nothing itself.
 *
 * One thread and edge-triggered epoll. Every publisher owns a run of ready frames, made once, and
 * writes slices of it straight from there: only the time in each body is set anew. A consumer
 * walks over the frames where they were received. What is measured starts after `--warmup`
 * seconds and lasts `--seconds`; then the publishers stop, and for at most `--drain` seconds the
 * consumers take what is still queued, so that the broker's work can be divided by all that was
 * consumed. `--idle N` and `--declare N` do something else: see `hold_idle` and `declare_many`.
 * One JSON object goes to stdout. SIGALRM ends a run that takes longer than `--limit` seconds.
 *
 *     cc -std=c11 -O2 -o load load.c
 *     ./load --port 5672 --size 1024 --auto-ack --seconds 5
 */
#define _GNU_SOURCE
#include "consumer.h"
#include "publisher.h"

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>

enum { EVENTS = 64, PACE_MS = 1, WAIT_MS = 50 };

struct session {
    int control, poller;
    struct publisher *publishers;
    struct consumer *consumers;
    uint64_t started;
};

/* ---- setting up and clearing away ---- */

static void declare_topology(int fd)
{
    static const char *const types[] = {"", "fanout", "topic"};
    if (options.topology != TO_QUEUES)
        call_declare_exchange(fd, exchange_name(), types[options.topology]);
    for (int i = 0; i < options.queues; i++) {
        int flags = options.durable ? QUEUE_DURABLE : QUEUE_AUTO_DELETE;
        call_declare_queue(fd, queue_name(i), flags, options.lazy);
        if (options.topology == TO_FANOUT)
            call_bind(fd, queue_name(i), exchange_name(), "");
    }
    int patterns = options.topology == TO_TOPIC ? options.bindings : 0;
    for (int i = 0; i < patterns; i++) {
        const char *pattern = routing_key("bench.%d.*", i);
        call_bind(fd, queue_name(i % options.queues), exchange_name(), pattern);
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
    self->control = open_channel(&options.peer);
    declare_topology(self->control);
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
    for (int i = 0; i < options.queues && !options.keep; i++)
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
            send_acks(consumer);
    } else {
        struct publisher *publisher = owner;
        if (readable)
            read_confirms(publisher);
        publisher->writable |= (event->events & EPOLLOUT) != 0;
    }
}

/* Takes what has come and lets every publisher send once; true if one could send more at once. */
static bool turn(struct session *self, bool busy, bool publishing)
{
    struct epoll_event events[EVENTS];
    int patience = busy ? 0 : options.rate > 0 ? PACE_MS : WAIT_MS;
    int count = epoll_wait(self->poller, events, EVENTS, patience);
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

static void run_until(struct session *self, uint64_t end)
{
    bool busy = true;
    while (clock_ns() < end)
        busy = turn(self, busy, true);
}

/* Takes what is queued; returns whether all of it came in time. */
static bool drain(struct session *self)
{
    uint64_t end = clock_ns() + (uint64_t)(options.drain * 1e9);
    uint64_t copies = options.topology == TO_FANOUT ? (uint64_t)options.queues : 1;
    bool complete = false;
    while (!complete && options.consumers && clock_ns() < end) {
        complete = total.consumed >= total.published * copies;
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

static void print_result(const struct counts *before, const struct counts *after, double seconds,
                         bool drained)
{
    printf("{\"seconds\": %.4f, \"publish_rate\": %.1f, \"consume_rate\": %.1f, ", seconds,
           (double)(after->published - before->published) / seconds,
           (double)(after->consumed - before->consumed) / seconds);
    printf("\"published\": %llu, \"consumed\": %llu, \"confirmed\": %llu, \"refused\": %llu, ",
           (unsigned long long)total.published, (unsigned long long)total.consumed,
           (unsigned long long)total.confirmed, (unsigned long long)total.refused);
    printf("\"drained\": %s, \"generator_cpu_seconds\": %.6f, ", drained ? "true" : "false",
           own_cpu_seconds());
    printf("\"latency_us\": {\"samples\": %llu, \"p50\": %.1f, \"p95\": %.1f, ",
           (unsigned long long)latency.samples, latency_quantile(&latency, 0.50),
           latency_quantile(&latency, 0.95));
    printf("\"p99\": %.1f, \"p999\": %.1f}}\n", latency_quantile(&latency, 0.99),
           latency_quantile(&latency, 0.999));
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
        open_channel(&options.peer);
    printf("{\"idle\": %d, \"seconds\": %.4f}\n", options.idle, (double)(clock_ns() - since) / 1e9);
    fflush(stdout);
    char ignored[256];
    while (read(STDIN_FILENO, ignored, sizeof ignored) > 0)
        continue;
}

/* Declares `--declare` queues one after the other; they go with the connection. */
static void declare_many(void)
{
    int fd = open_channel(&options.peer);
    uint64_t since = clock_ns();
    for (int i = 0; i < options.declare; i++)
        call_declare_queue(fd, queue_name(i), QUEUE_EXCLUSIVE, false);
    double seconds = (double)(clock_ns() - since) / 1e9;
    call_close(fd);
    printf("{\"declared\": %d, \"seconds\": %.4f}\n", options.declare, seconds);
}

/* ---- options ---- */

enum kind { A_NUMBER, A_FRACTION, A_TEXT, A_SWITCH, A_TOPOLOGY };

static const struct {
    const char *name;
    enum kind kind;
    void *target;
    const char *help;
} known[] = {
    {"host", A_TEXT, &options.peer.host, "the broker's IPv4 address"},
    {"port", A_NUMBER, &options.peer.port, "its AMQP port"},
    {"user", A_TEXT, &options.peer.user, "who logs in"},
    {"password", A_TEXT, &options.peer.password, "and with what"},
    {"vhost", A_TEXT, &options.peer.vhost, "the virtual host"},
    {"publishers", A_NUMBER, &options.publishers, "connections that publish"},
    {"consumers", A_NUMBER, &options.consumers, "connections that consume"},
    {"queues", A_NUMBER, &options.queues, "queues they are spread over"},
    {"size", A_NUMBER, &options.size, "bytes of a body"},
    {"vary", A_NUMBER, &options.vary, "bytes by which bodies are larger at most; sizes take turns"},
    {"own-properties", A_SWITCH, &options.own_properties, "headers, an id and a time each"},
    {"seconds", A_FRACTION, &options.seconds, "how long to measure"},
    {"warmup", A_FRACTION, &options.warmup, "how long to run before that"},
    {"drain", A_FRACTION, &options.drain, "how long to wait for what is queued at the end"},
    {"rate", A_FRACTION, &options.rate, "messages published a second in all; 0: as many as go"},
    {"window", A_NUMBER, &options.window, "messages open for confirmation; 0: no confirms"},
    {"ack-every", A_NUMBER, &options.ack_every, "messages an ack stands for"},
    {"auto-ack", A_SWITCH, &options.auto_ack, "no acks"},
    {"prefetch", A_NUMBER, &options.prefetch, "deliveries open for an ack"},
    {"burst", A_NUMBER, &options.burst, "messages of one write at most"},
    {"bindings", A_NUMBER, &options.bindings, "bindings of the topic exchange"},
    {"topology", A_TOPOLOGY, &options.topology, "queues, fanout (to every queue) or topic"},
    {"durable", A_SWITCH, &options.durable, "durable queues, persistent messages"},
    {"idle", A_NUMBER, &options.idle, "only hold this many connections"},
    {"declare", A_NUMBER, &options.declare, "only declare this many queues"},
    {"count", A_NUMBER, &options.count, "only publish, or consume, so many messages"},
    {"name", A_TEXT, &options.name, "what names of queues begin with"},
    {"keep", A_SWITCH, &options.keep, "leave the queues there at the end"},
    {"lazy", A_SWITCH, &options.lazy, "lazy queues"},
    {"limit", A_NUMBER, &options.limit, "seconds after which to give up"},
};
enum { KNOWN = sizeof known / sizeof *known };

_Noreturn static void print_usage(void)
{
    fputs("usage: load [options]; those with a value take it as the next argument\n", stderr);
    for (int i = 0; i < KNOWN; i++)
        fprintf(stderr, "  --%-12s %s\n", known[i].name, known[i].help);
    exit(2);
}

static enum topology parse_topology(const char *text)
{
    static const char *const names[] = {"queues", "fanout", "topic"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i]))
            return (enum topology)i;
    print_usage();
}

/* Numbers are never negative, and 0 only where the help says what it means. */
static double parse_number(const char *text, double maximum)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= maximum))
        print_usage();
    return value;
}

static void set_option(int index, const char *value)
{
    void *target = known[index].target;
    switch (known[index].kind) {
    case A_NUMBER: *(int *)target = (int)parse_number(value, 1 << 30); break;
    case A_FRACTION: *(double *)target = parse_number(value, 1e9); break;
    case A_TEXT: *(const char **)target = value; break;
    case A_SWITCH: *(bool *)target = true; break;
    case A_TOPOLOGY: *(enum topology *)target = parse_topology(value); break;
    }
}

static void parse_options(int count, char **arguments)
{
    struct option forms[KNOWN + 1] = {0};
    for (int i = 0; i < KNOWN; i++) {
        bool valued = known[i].kind != A_SWITCH;
        int form = valued ? required_argument : no_argument;
        forms[i] = (struct option){known[i].name, form, NULL, i};
    }
    for (int index; (index = getopt_long(count, arguments, "", forms, NULL)) != -1;) {
        if (index == '?')
            print_usage();
        set_option(index, optarg);
    }
    if (optind < count || options.queues < 1 || options.burst < 1 || options.ack_every < 1
        || options.bindings < 1 || options.limit < 1)
        print_usage();
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
