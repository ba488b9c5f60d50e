/* A load generator for RabbitMQ's stream protocol that costs next to nothing itself.
 *
 * One thread and poll. The publisher sends frames of `--batch` messages while fewer than `--window`
 * are unconfirmed; frames are made once, and only times and publishing ids are set anew. Readers
 * walk over the messages of each chunk where it was received, and give credit for it. A message is
 * a data section of AMQP 1.0, as the clients of the protocol send it, whose first bytes are the time
 * at which it was due. What is measured starts after `--warmup` seconds and lasts `--seconds`; then
 * the readers take what they lack. `--count N` publishes N messages and has them confirmed;
 * with `--readers` and `--stored N` each reader reads N messages from the beginning.
 * One JSON object goes to stdout. SIGALRM ends a run that takes longer than `--limit` seconds.
 *
 *     cc -std=gnu11 -O2 -o stream_load stream_load.c
 *     ./stream_load --port 5552 --size 100 --batch 100 --seconds 5
 */
#define _GNU_SOURCE
#include "latency.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DECLARE_PUBLISHER = 1, PUBLISH = 2, PUBLISH_CONFIRM = 3, PUBLISH_ERROR = 4, SUBSCRIBE = 7,
       DELIVER = 8, CREDIT = 9, CREATE = 13, DELETE_STREAM = 14, METADATA_UPDATE = 16,
       PEER_PROPERTIES = 17, SASL_HANDSHAKE = 18, SASL_AUTHENTICATE = 19, TUNE = 20, OPEN = 21,
       CLOSE = 22, HEARTBEAT = 23 };
enum { RESPONSE = 0x8000, OK = 1, FIRST = 1, NEXT = 3 };
enum { INPUT_BYTES = 32 << 20, SECTION_BYTES = 8, CREDIT_CHUNKS = 50,
       CHUNK_HEAD = 48, IN_BATCH = 0x80000000u };

static struct {
    const char *host, *stream;
    int port, reader_port, size, batch, window, readers, limit, keep, declared, publishers;
    double seconds, warmup, drain, rate, count, stored;
} options = {
    .host = "127.0.0.1", .port = 5552, .size = 100, .batch = 100, .window = 10000, .readers = 1,
    .limit = 120, .seconds = 5, .warmup = 1, .drain = 10, .publishers = 1,
};

static const struct { const char *name; char kind; void *target; const char *help; } known[] = {
    {"host", 't', &options.host, "the broker's IPv4 address"},
    {"port", 'i', &options.port, "its port for streams"},
    {"reader-port", 'i', &options.reader_port, "that of readers; 0: the same port"},
    {"stream", 't', &options.stream, "the name of the stream"},
    {"size", 'i', &options.size, "bytes of a body"},
    {"batch", 'i', &options.batch, "messages of a frame"},
    {"window", 'i', &options.window, "unconfirmed messages at most"},
    {"publishers", 'i', &options.publishers, "0: nothing is published"},
    {"readers", 'i', &options.readers, "connections that read"},
    {"rate", 'd', &options.rate, "messages published a second; 0: as many as go"},
    {"seconds", 'd', &options.seconds, "how long to measure"},
    {"warmup", 'd', &options.warmup, "how long to run before that"},
    {"drain", 'd', &options.drain, "how long to wait at the end for what was not read"},
    {"count", 'd', &options.count, "only publish so many messages"},
    {"stored", 'd', &options.stored, "only read so many messages from the beginning, each reader"},
    {"limit", 'i', &options.limit, "seconds after which to give up"},
    {"declared", 's', &options.declared, "the stream is there"},
    {"keep", 's', &options.keep, "leave the stream there at the end"},
};
enum { KNOWN = sizeof known / sizeof *known };

struct client {
    int fd;
    uint8_t *input;
    size_t length;
    uint8_t output[4096];       /* credits that are to be sent */
    size_t output_length;
    uint64_t consumed;
};

static struct latency latency;
static bool measuring;
static uint64_t published, confirmed, consumed;

_Noreturn static void fail(const char *form, ...)
{
    va_list values;
    va_start(values, form);
    fputs("stream_load: ", stderr);
    vfprintf(stderr, form, values);
    fputc('\n', stderr);
    exit(1);
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- bytes ---- */

static uint64_t load_number(const uint8_t *at, int size)
{
    uint64_t number = 0;
    for (int i = 0; i < size; i++)
        number = number << 8 | at[i];
    return number;
}

static uint8_t *put(uint8_t *at, uint64_t number, int size)
{
    for (int i = size; i-- > 0; number >>= 8)
        at[i] = (uint8_t)number;
    return at + size;
}

static uint8_t *put_text(uint8_t *at, const char *text)
{
    size_t size = strlen(text);
    at = put(at, size, 2);
    memcpy(at, text, size);
    return at + size;
}

static void send_all(struct client *self, const uint8_t *data, size_t size)
{
    while (size) {
        ssize_t sent = send(self->fd, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd one = {self->fd, POLLOUT, 0};
            poll(&one, 1, 1000);
        } else if (sent < 0) {
            fail("cannot send: %s", strerror(errno));
        } else {
            data += sent;
            size -= (size_t)sent;
        }
    }
}

/* ---- the blocking part: before and after a measurement ---- */

static uint8_t *begin(uint8_t *frame, int key)
{
    return put(put(put(frame, 0, 4), (uint64_t)key, 2), 1, 2);
}

static void end(struct client *self, uint8_t *frame, const uint8_t *at)
{
    put(frame, (uint64_t)(at - frame - 4), 4);
    send_all(self, frame, (size_t)(at - frame));
}

/* The next frame with this key; others are dropped. It stays in the input until the next call. */
static const uint8_t *await(struct client *self, int key)
{
    for (;;) {
        size_t size = self->length >= 4 ? 4 + load_number(self->input, 4) : 4;
        while (self->length < size) {
            ssize_t count = recv(self->fd, self->input + self->length, size - self->length, 0);
            if (count <= 0)
                fail("the broker closed a connection while command %d was awaited", key);
            self->length += (size_t)count;
            if (self->length == 4)
                size = 4 + load_number(self->input, 4);
            if (size > INPUT_BYTES)
                fail("a frame of %zu bytes", size);
        }
        self->length = 0;
        int got = (int)load_number(self->input + 4, 2);
        if (got == CLOSE)
            fail("the broker closes: %.*s", (int)load_number(self->input + 14, 2),
                 (const char *)self->input + 16);
        if (got == key)
            return self->input + 8;
    }
}

static int ask(struct client *self, int key, uint8_t *frame, const uint8_t *at)
{
    end(self, frame, at);
    return (int)load_number(await(self, key | RESPONSE) + 4, 2);
}

static void call(struct client *self, int key, uint8_t *frame, const uint8_t *at)
{
    int code = ask(self, key, frame, at);
    if (code != OK)
        fail("command %d is answered with code %d", key, code);
}

static void open_client(struct client *self, int port)
{
    uint8_t frame[512], *at;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1;
    inet_pton(AF_INET, options.host, &address.sin_addr);
    self->fd = socket(AF_INET, SOCK_STREAM, 0);
    self->input = malloc(INPUT_BYTES);
    if (connect(self->fd, (struct sockaddr *)&address, sizeof address))
        fail("cannot connect to port %d: %s", port, strerror(errno));
    setsockopt(self->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    at = put(put(begin(frame, PEER_PROPERTIES), 1, 4), 0, 4);
    call(self, PEER_PROPERTIES, frame, at);
    call(self, SASL_HANDSHAKE, frame, put(begin(frame, SASL_HANDSHAKE), 2, 4));
    at = put(put_text(put(begin(frame, SASL_AUTHENTICATE), 3, 4), "PLAIN"), 12, 4);
    memcpy(at, "\0guest\0guest", 12);
    call(self, SASL_AUTHENTICATE, frame, at + 12);
    const uint8_t *tune = await(self, TUNE);
    at = put(put(begin(frame, TUNE), load_number(tune, 4), 4), 0, 4);
    put(frame + 4, TUNE | RESPONSE, 2);
    end(self, frame, at);
    call(self, OPEN, frame, put_text(put(begin(frame, OPEN), 4, 4), "/"));
}

static void declare(struct client *self, int key)
{
    uint8_t frame[512], *at = put_text(put(begin(frame, key), 5, 4), options.stream);
    call(self, key, frame, key == CREATE ? put(at, 0, 4) : at);
}

/* A member on another node may need some time to begin. */
static void subscribe(struct client *self, int offset)
{
    for (int code = 0, tries = 0; code != OK; tries++) {
        uint8_t frame[512], *at = put(put(begin(frame, SUBSCRIBE), 6, 4), 0, 1);
        at = put(put_text(at, options.stream), (uint64_t)offset, 2);
        code = ask(self, SUBSCRIBE, frame, put(put(at, CREDIT_CHUNKS, 2), 0, 4));
        if (code != OK && tries == 100)
            fail("a subscription is answered with code %d", code);
        if (code != OK)
            usleep(100000);
    }
}

static void go_nonblocking(struct client *self)
{
    if (fcntl(self->fd, F_SETFL, O_NONBLOCK))
        fail("cannot make a socket non-blocking: %s", strerror(errno));
}

/* ---- publishing ---- */

static struct {
    struct client client;
    uint8_t *frame;             /* with `batch` messages */
    size_t frame_bytes, message_bytes, unsent;
} publisher;

static void open_publisher(void)
{
    struct client *client = &publisher.client;
    uint8_t frame[512], *at;
    open_client(client, options.port);
    at = put(put(begin(frame, DECLARE_PUBLISHER), 7, 4), 0, 1);
    call(client, DECLARE_PUBLISHER, frame, put_text(put(at, 0, 2), options.stream));
    go_nonblocking(client);
    size_t body = SECTION_BYTES + (size_t)options.size;
    publisher.message_bytes = 12 + body;
    publisher.frame_bytes = 13 + publisher.message_bytes * (size_t)options.batch;
    publisher.frame = calloc(1, publisher.frame_bytes);
    at = begin(publisher.frame, PUBLISH);
    put(publisher.frame, publisher.frame_bytes - 4, 4);
    at = put(put(at, 0, 1), (uint64_t)options.batch, 4);
    for (int i = 0; i < options.batch; i++, at += publisher.message_bytes) {
        put(put(at + 8, body, 4), 0x005375b0, 4);   /* a data section */
        put(at + 16, (uint64_t)options.size, 4);
        memset(at + 12 + SECTION_BYTES, 'x', (size_t)options.size);
    }
}

/* Sends what a full socket did not take, or frames; true if more could follow at once. */
static bool publish(uint64_t started)
{
    for (int frames = 0; frames < 16; frames++) {
        if (!publisher.unsent) {
            uint64_t now = clock_ns(), due = published + (uint64_t)options.batch;
            if (published + (uint64_t)options.batch > confirmed + (uint64_t)options.window)
                return false;
            if (options.count > 0 && published >= (uint64_t)options.count)
                return false;
            if (options.rate > 0 && (double)due > (double)(now - started) * options.rate / 1e9)
                return false;
            uint8_t *at = publisher.frame + 13;
            for (int i = 0; i < options.batch; i++, at += publisher.message_bytes) {
                put(at, published++, 8);
                memcpy(at + 12 + SECTION_BYTES, &now, sizeof now);
            }
            publisher.unsent = publisher.frame_bytes;
        }
        const uint8_t *from = publisher.frame + publisher.frame_bytes - publisher.unsent;
        ssize_t sent = send(publisher.client.fd, from, publisher.unsent, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            fail("lost the publisher: %s", strerror(errno));
        publisher.unsent -= sent > 0 ? (size_t)sent : 0;
        if (publisher.unsent)
            return false;
    }
    return true;
}

/* ---- what comes ---- */

static void add_credit(struct client *self)
{
    uint8_t *at = self->output + self->output_length;
    if (self->output_length + 11 > sizeof self->output)
        fail("a reader cannot send its credits");
    put(put(put(put(put(at, 7, 4), CREDIT, 2), 1, 2), 0, 1), 1, 2);
    self->output_length += 11;
}

static void take_chunk(struct client *self, const uint8_t *chunk, uint64_t now)
{
    uint32_t entries = (uint32_t)load_number(chunk + 2, 2);
    uint32_t records = (uint32_t)load_number(chunk + 4, 4);
    const uint8_t *at = chunk + CHUNK_HEAD + chunk[44];
    for (uint32_t i = 0; measuring && i < entries; i++) {
        uint32_t size = (uint32_t)load_number(at, 4);
        uint64_t then;
        if (size & IN_BATCH)
            break;
        memcpy(&then, at + 4 + SECTION_BYTES, sizeof then);
        latency_record(&latency, now - then);
        at += 4 + size;
    }
    self->consumed += records;
    consumed += records;
    add_credit(self);
}

static void take(struct client *self, const uint8_t *frame)
{
    int key = (int)load_number(frame + 4, 2);
    if (key == PUBLISH_CONFIRM)
        confirmed += load_number(frame + 9, 4);
    else if (key == DELIVER)
        take_chunk(self, frame + 9, measuring ? clock_ns() : 0);
    else if (key == PUBLISH_ERROR || key == METADATA_UPDATE || key == CLOSE)
        fail("the broker sends command %d", key);
}

static void receive(struct client *self)
{
    ssize_t count = recv(self->fd, self->input + self->length, INPUT_BYTES - self->length, 0);
    if (count == 0)
        fail("the broker hung up");
    if (count < 0 && errno != EAGAIN)
        fail("cannot receive: %s", strerror(errno));
    self->length += count > 0 ? (size_t)count : 0;
    const uint8_t *at = self->input, *stop = at + self->length;
    while (stop - at >= 4) {
        size_t size = 4 + load_number(at, 4);
        if (size > INPUT_BYTES)
            fail("a frame of %zu bytes", size);
        if (size > (size_t)(stop - at))
            break;
        take(self, at);
        at += size;
    }
    self->length = (size_t)(stop - at);
    if (self->length && at != self->input)
        memmove(self->input, at, self->length);
    if (self->output_length)
        send_all(self, self->output, self->output_length);
    self->output_length = 0;
}

/* ---- the loop ---- */

static struct client *readers;
static struct pollfd *watched;

static bool turn(uint64_t started, bool busy, bool publishing)
{
    struct timespec patience = {.tv_nsec = busy ? 0 : options.rate > 0 ? 200000 : 50000000};
    int count = options.readers + options.publishers;
    if (options.publishers)
        watched[options.readers].events = POLLIN | (publisher.unsent ? POLLOUT : 0);
    ppoll(watched, (nfds_t)count, &patience, NULL);
    for (int i = 0; i < count; i++)
        if (watched[i].revents & (POLLIN | POLLHUP | POLLERR))
            receive(i < options.readers ? readers + i : &publisher.client);
    return options.publishers && (publishing || publisher.unsent) && publish(started);
}

static void run_until(uint64_t started, uint64_t stop)
{
    for (bool busy = true; clock_ns() < stop;)
        busy = turn(started, busy, true);
}

static bool all_done(void)
{
    if (options.count > 0)
        return confirmed >= (uint64_t)options.count;
    for (int i = 0; i < options.readers; i++)
        if (readers[i].consumed < (options.stored > 0 ? (uint64_t)options.stored : published))
            return false;
    return confirmed >= published;
}

static double own_cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
           + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void put_load(void)
{
    uint64_t started = clock_ns(), since = started, first_published = 0, first_consumed = 0;
    bool drained = true, busy = true;
    double seconds;
    if (options.count > 0 || options.stored > 0) {
        while (!all_done())
            busy = turn(started, busy, true);
        seconds = (double)(clock_ns() - since) / 1e9;
    } else {
        run_until(started, started + (uint64_t)(options.warmup * 1e9));
        first_published = confirmed, first_consumed = consumed, since = clock_ns();
        measuring = true;
        run_until(started, since + (uint64_t)(options.seconds * 1e9));
        measuring = false;
        seconds = (double)(clock_ns() - since) / 1e9;
    }
    uint64_t last_published = confirmed, last_consumed = consumed;
    uint64_t stop = clock_ns() + (uint64_t)(options.drain * 1e9);
    while (!(drained = all_done()) && clock_ns() < stop)
        turn(started, false, false);
    printf("{\"seconds\": %.4f, \"publish_rate\": %.1f, \"consume_rate\": %.1f, ", seconds,
           (double)(last_published - first_published) / seconds,
           (double)(last_consumed - first_consumed) / seconds);
    printf("\"published\": %llu, \"confirmed\": %llu, \"consumed\": %llu, \"drained\": %s, ",
           (unsigned long long)published, (unsigned long long)confirmed,
           (unsigned long long)consumed, drained ? "true" : "false");
    printf("\"generator_cpu_seconds\": %.6f, \"latency_us\": {\"samples\": %llu, ",
           own_cpu_seconds(), (unsigned long long)latency.samples);
    printf("\"p50\": %.1f, \"p95\": %.1f, \"p99\": %.1f, \"longest\": %.1f}}\n",
           latency_quantile(&latency, 0.50), latency_quantile(&latency, 0.95),
           latency_quantile(&latency, 0.99), (double)latency.longest_ns / 1e3);
}

_Noreturn static void print_usage(void)
{
    fputs("usage: stream_load [options]; those with a value take it as the next argument\n", stderr);
    for (int i = 0; i < KNOWN; i++)
        fprintf(stderr, "  --%-12s %s\n", known[i].name, known[i].help);
    exit(2);
}

static void parse_options(int count, char **arguments)
{
    struct option forms[KNOWN + 1] = {0};
    for (int i = 0; i < KNOWN; i++)
        forms[i] = (struct option){known[i].name, known[i].kind != 's', NULL, i};
    for (int index; (index = getopt_long(count, arguments, "", forms, NULL)) != -1;) {
        if (index == '?')
            print_usage();
        void *target = known[index].target;
        switch (known[index].kind) {
        case 'i': *(int *)target = atoi(optarg); break;
        case 'd': *(double *)target = atof(optarg); break;
        case 't': *(const char **)target = optarg; break;
        case 's': *(int *)target = 1; break;
        }
    }
    bool has_room = options.batch > 0 && options.window >= options.batch && options.size >= 8;
    if (optind < count || !has_room || options.publishers < 0 || options.publishers > 1)
        print_usage();
}

static void give_up(int signal_number)
{
    static const char line[] = "stream_load: gave up after the time that --limit allows\n";
    (void)signal_number;
    _exit(write(STDERR_FILENO, line, sizeof line - 1) < 0 ? 4 : 3);
}

int main(int count, char **arguments)
{
    static char name[64];
    struct client control = {0};
    parse_options(count, arguments);
    signal(SIGALRM, give_up);
    prctl(PR_SET_TIMERSLACK, 1000ul);
    alarm((unsigned)options.limit);
    snprintf(name, sizeof name, "bench-%d", (int)getpid());
    options.stream = options.stream ? options.stream : name;
    open_client(&control, options.port);
    if (!options.declared)
        declare(&control, CREATE);
    readers = calloc((size_t)options.readers + 1, sizeof *readers);
    watched = calloc((size_t)options.readers + 1, sizeof *watched);
    for (int i = 0; i < options.readers; i++) {
        open_client(readers + i, options.reader_port ? options.reader_port : options.port);
        subscribe(readers + i, options.stored > 0 ? FIRST : NEXT);
        go_nonblocking(readers + i);
        watched[i] = (struct pollfd){readers[i].fd, POLLIN, 0};
    }
    if (options.publishers) {
        open_publisher();
        watched[options.readers] = (struct pollfd){publisher.client.fd, POLLIN, 0};
    }
    put_load();
    if (!options.keep)
        declare(&control, DELETE_STREAM);
    return 0;
}
