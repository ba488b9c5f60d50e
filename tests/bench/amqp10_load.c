/* A load generator for AMQP 1.0 that costs next to nothing itself, with AMQP 0-9-1 on either side.
 *
 * One thread and poll. Each publisher has a ring of frames, made once, of which only the numbers
 * and the time are set anew; it sends while fewer than `--window` messages are unsettled and the
 * broker gives credit. Consumers settle `--settle-every` deliveries with one disposition and renew
 * their credit when half of it is used. A message is what programs send: half to one and a half
 * times `--size`, a content type, a unique message id, a time and four application properties, or
 * headers in 0-9-1. The first bytes of its body are the time at which it was sent. What is measured
 * starts after `--warmup` seconds and lasts `--seconds`; then consumers take what is left, and
 * publishers the outcomes. One JSON object goes to stdout. SIGALRM ends a run after `--limit`
 * seconds.
 *
 *     cc -std=gnu11 -O2 -o amqp10_load amqp10_load.c
 *     ./amqp10_load --port 5672 --window 1000 --seconds 5
 */
#define _GNU_SOURCE
#include "amqp.h"
#include "latency.h"

#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { OPEN = 0x10, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE_10 };
enum { ACCEPTED = 0x24, SASL_MECHANISMS = 0x40, SASL_INIT, SASL_OUTCOME = 0x44 };
enum { RING = 256, INPUT_SIZE = 1 << 20, PIECE = 64, CLIENTS_MAX = 64, FIELDS_MAX = 16 };
enum { WIDE_WINDOW = 0x7FFFFFFF };

static struct {
    struct peer peer;
    const char *queue;
    int size, window, credit, settle_every, publishers, consumers, queues, limit;
    int publish_091, consume_091, transient;
    double seconds, warmup, drain, rate;
} options = {
    .peer = {"127.0.0.1", "guest", "guest", "/", 5672, false}, .queue = "bench", .size = 1024,
    .window = 1000, .credit = 1000, .settle_every = 50, .publishers = 1, .consumers = 1,
    .queues = 1, .limit = 120, .seconds = 5, .warmup = 1, .drain = 10,
};

static const struct { const char *name; char kind; void *target; const char *help; } known[] = {
    {"host", 't', &options.peer.host, "the broker's IPv4 address"},
    {"port", 'i', &options.peer.port, "its port"},
    {"queue", 't', &options.queue, "how the names of queues begin"},
    {"size", 'i', &options.size, "bytes of a body, on average"},
    {"window", 'i', &options.window, "unsettled messages of a publisher at most"},
    {"credit", 'i', &options.credit, "credit of a consumer"},
    {"settle-every", 'i', &options.settle_every, "deliveries that are settled at once"},
    {"publishers", 'i', &options.publishers, "connections that publish"},
    {"consumers", 'i', &options.consumers, "connections that consume"},
    {"queues", 'i', &options.queues, "queues, which publishers and consumers take in turn"},
    {"publish-091", 's', &options.publish_091, "publish with AMQP 0-9-1"},
    {"consume-091", 's', &options.consume_091, "consume with AMQP 0-9-1"},
    {"transient", 's', &options.transient, "messages are not durable"},
    {"rate", 'd', &options.rate, "messages published a second; 0: as many as go"},
    {"seconds", 'd', &options.seconds, "how long to measure"},
    {"warmup", 'd', &options.warmup, "how long to run before that"},
    {"drain", 'd', &options.drain, "how long to wait at the end for what is left"},
    {"limit", 'i', &options.limit, "seconds after which to give up"},
};
enum { KNOWN = sizeof known / sizeof *known };

struct frame {
    uint8_t *bytes;
    size_t size, delivery, id, time;    /* where the numbers, the message id and the time are */
};

struct client {
    int fd, index;
    bool publishes, is_091;
    struct frame *ring;
    int next;
    size_t unsent;
    uint32_t count, limit, window_end;  /* transfers sent; by credit; by the session's window */
    uint64_t published, settled;
    uint32_t first, first_incoming, received, credit_end;
    uint64_t tag, body_left;
    bool body_starts;
    int unsettled;
    struct buffer output;
    uint8_t *input;
    size_t length;
};

static struct client clients[CLIENTS_MAX];
static struct latency latency;
static bool measuring;
static uint64_t published, confirmed, refused, consumed;

static const char *queue_of(int index)
{
    static char name[128];
    snprintf(name, sizeof name, "%s-%d", options.queue, index % options.queues);
    return name;
}

/* ---- values of AMQP 1.0 ---- */

static void put_bytes(struct buffer *into, const char *bytes, size_t size)
{
    memcpy(buffer_extend(into, size), bytes, size);
}

static void put_short(struct buffer *into, int code, const char *text)
{
    put_number(into, (uint64_t)code, 1);
    put_text(into, text);
}

static void put_uint(struct buffer *into, uint32_t value)
{
    put_number(into, 0x70, 1);
    put_number(into, value, 4);
}

/* Starts a described compound value; returns where its size is. */
static size_t compound(struct buffer *into, int descriptor, int code, int count)
{
    put_bytes(into, "\0\x53", 2);
    put_number(into, (uint64_t)descriptor, 1);
    put_number(into, (uint64_t)code, 1);
    put_number(into, 0, 4);
    put_number(into, (uint64_t)count, 4);
    return into->length - 8;
}

static void set_size(struct buffer *into, size_t at, size_t size)
{
    for (int i = 0; i < 4; i++)
        into->bytes[at + (size_t)i] = (uint8_t)(size >> (24 - 8 * i));
}

static void end_compound(struct buffer *into, size_t at)
{
    set_size(into, at, into->length - at - 4);
}

static size_t open_frame(struct buffer *into, int type)
{
    put_number(into, 0, 4);
    put_number(into, 2, 1);
    put_number(into, (uint64_t)type, 1);
    put_number(into, 0, 2);
    return into->length - 8;
}

static void end_frame(struct buffer *into, size_t start)
{
    set_size(into, start, into->length - start);
}

struct field {
    uint8_t code;
    uint64_t number;
    const uint8_t *at;
    size_t size;
};

/* Reads a value at `at` and returns where it ends. A described value has the number of its
 * descriptor. */
static const uint8_t *read_value(const uint8_t *at, struct field *into)
{
    static const int sizes[] = {[4] = 0, [5] = 1, [6] = 2, [7] = 4, [8] = 8, [9] = 16};
    *into = (struct field){.code = *at++};
    int width = into->code >> 4, prefix = width >= 0xA ? (width & 1 ? 4 : 1) : 0;
    if (into->code == 0) {
        struct field content;
        at = read_value(read_value(at, into), &content);
        into->code = 0;
        return at;
    }
    into->size = prefix ? 0 : (size_t)sizes[width];
    for (int i = 0; i < prefix; i++)
        into->size = into->size << 8 | *at++;
    into->at = at;
    for (size_t i = 0; !prefix && i < into->size && i < 8; i++)
        into->number = into->number << 8 | at[i];
    return at + into->size;
}

/* The fields of the performative at `at`; returns its descriptor, and where it ends. */
static int read_fields(const uint8_t *at, struct field *fields, const uint8_t **end)
{
    struct field descriptor;
    memset(fields, 0, FIELDS_MAX * sizeof *fields);
    at = read_value(at + 1, &descriptor);
    int wide = *at == 0xD0, count = 0;
    if (*at == 0x45) {
        *end = at + 1;
    } else {
        *end = wide ? at + 5 + load_u32(at + 1) : at + 2 + at[1];
        count = wide ? (int)load_u32(at + 5) : at[2];
        at += wide ? 9 : 3;
    }
    for (int i = 0; i < count && i < FIELDS_MAX; i++)
        at = read_value(at, fields + i);
    return (int)descriptor.number;
}

/* ---- the blocking part: before a measurement ---- */

static int await_frame(struct client *self, int wanted)
{
    static uint8_t frame[1 << 17];
    struct field fields[FIELDS_MAX];
    const uint8_t *end;
    for (;;) {
        receive_exactly(self->fd, frame, 8);
        if (!memcmp(frame, "AMQP", 4))
            return 0;
        size_t size = load_u32(frame);
        if (size > sizeof frame)
            fail("a frame of %zu bytes", size);
        receive_exactly(self->fd, frame + 8, size - 8);
        int got = read_fields(frame + 4 * frame[4], fields, &end);
        if (got == BEGIN)
            self->first_incoming = (uint32_t)fields[1].number;
        if (got == wanted)
            return (int)fields[0].number;
        if (got == END || got == CLOSE_10 || got == DETACH)
            fail("the broker refuses: %.*s", (int)(size - 8), (const char *)frame + 8);
    }
}

static void put_attach(struct client *self, struct buffer *into)
{
    char address[160];
    snprintf(address, sizeof address, "/queues/%s", queue_of(self->index));
    size_t frame = open_frame(into, 0), list = compound(into, ATTACH, 0xD0, 10);
    put_short(into, 0xA1, self->publishes ? "sender" : "receiver");
    put_bytes(into, "\x43", 1);
    put_bytes(into, self->publishes ? "\x42" : "\x41", 1);
    put_bytes(into, "\x50\x00\x50\x00", 4);
    for (int target = 0; target < 2; target++) {
        size_t terminus = compound(into, 0x28 + target, 0xD0, 1);
        if (target == (int)self->publishes)
            put_short(into, 0xA1, address);
        else
            put_bytes(into, "\x40", 1);
        end_compound(into, terminus);
    }
    put_bytes(into, "\x40\x40\x43", 3);
    end_compound(into, list);
    end_frame(into, frame);
}

static void open_10(struct client *self)
{
    struct buffer request = {0};
    self->fd = connect_socket(&options.peer);
    put_bytes(&request, "AMQP\3\1\0\0", 8);
    send_buffer(self->fd, &request);
    await_frame(self, 0);
    await_frame(self, SASL_MECHANISMS);
    size_t frame = open_frame(&request, 1), list = compound(&request, SASL_INIT, 0xD0, 2);
    put_short(&request, 0xA3, "PLAIN");
    put_bytes(&request, "\xA0\x0C\0guest\0guest", 14);
    end_compound(&request, list);
    end_frame(&request, frame);
    send_buffer(self->fd, &request);
    if (await_frame(self, SASL_OUTCOME))
        fail("the login is refused");
    put_bytes(&request, "AMQP\0\1\0\0", 8);
    frame = open_frame(&request, 0), list = compound(&request, OPEN, 0xD0, 3);
    put_short(&request, 0xA1, "load");
    put_short(&request, 0xA1, "vhost:/");
    put_uint(&request, 1 << 17);
    end_compound(&request, list);
    end_frame(&request, frame);
    frame = open_frame(&request, 0), list = compound(&request, BEGIN, 0xD0, 4);
    put_bytes(&request, "\x40", 1);
    put_uint(&request, 0);
    put_uint(&request, WIDE_WINDOW);
    put_uint(&request, WIDE_WINDOW);
    end_compound(&request, list);
    end_frame(&request, frame);
    put_attach(self, &request);
    send_buffer(self->fd, &request);
    await_frame(self, 0);
    await_frame(self, OPEN);
    await_frame(self, BEGIN);
    await_frame(self, ATTACH);
    free(request.bytes);
    self->window_end = 400;     /* until the first flow */
}

/* ---- messages ---- */

static int body_size(int place)
{
    return options.size / 2 + (int)((int64_t)place * 37 % RING * options.size / RING);
}

static void put_body_10(struct frame *self, struct buffer *into, int size)
{
    put_bytes(into, "\0\x53\x75\xB0", 4);
    put_number(into, (uint64_t)size, 4);
    self->time = into->length;
    memset(buffer_extend(into, (size_t)size), 'x', (size_t)size);
}

static void make_frame_10(struct frame *self, int place)
{
    struct buffer into = {0};
    size_t frame = open_frame(&into, 0);
    put_bytes(&into, "\0\x53\x14\xC0\x10\x06\x43\x70", 8);
    self->delivery = into.length;
    put_bytes(&into, "\0\0\0\0\xA0\x04\0\0\0\0\x43\x42\x42", 13);
    put_bytes(&into, "\0\x53\x70\xC0\x02\x01", 6);
    put_bytes(&into, options.transient ? "\x42" : "\x41", 1);
    size_t list = compound(&into, 0x73, 0xD0, 10);
    put_bytes(&into, "\xA1\x20", 2);
    self->id = into.length;
    memset(buffer_extend(&into, 32), '0', 32);
    put_bytes(&into, "\x40\x40\x40\x40\x40", 5);
    put_short(&into, 0xA3, "application/json");
    put_bytes(&into, "\x40\x40\x83\0\0\1\x93\x70\x12\x34\x56", 11);
    end_compound(&into, list);
    size_t map = compound(&into, 0x74, 0xD1, 8);
    put_short(&into, 0xA1, "tenant");
    put_short(&into, 0xA1, "europe-west");
    put_short(&into, 0xA1, "kind");
    put_short(&into, 0xA1, "order.created");
    put_short(&into, 0xA1, "attempt");
    put_bytes(&into, "\x54\x01", 2);
    put_short(&into, 0xA1, "amount");
    put_bytes(&into, "\x82\x40\x59\0\0\0\0\0\0", 9);
    end_compound(&into, map);
    put_body_10(self, &into, body_size(place));
    end_frame(&into, frame);
    self->bytes = into.bytes, self->size = into.length;
}

static void put_header_text(struct buffer *into, const char *name, const char *text)
{
    put_text(into, name);
    put_number(into, 'S', 1);
    put_number(into, strlen(text), 4);
    put_bytes(into, text, strlen(text));
}

static void make_frame_091(struct frame *self, int place, const char *queue)
{
    struct buffer into = {0};
    size_t start = method_open(&into, 1, BASIC_PUBLISH);
    put_number(&into, 0, 2);
    put_text(&into, "");
    put_text(&into, queue);
    put_number(&into, 0, 1);
    frame_close(&into, start);
    start = frame_open(&into, FRAME_HEADER, 1);
    put_number(&into, (uint64_t)60 << 16, 4);
    put_number(&into, (uint64_t)body_size(place), 8);
    put_number(&into, 0xB0C0, 2); /* content type, headers, mode, message id, time */
    put_text(&into, "application/json");
    size_t table = into.length;
    put_number(&into, 0, 4);
    put_header_text(&into, "tenant", "europe-west");
    put_header_text(&into, "kind", "order.created");
    put_text(&into, "attempt");
    put_bytes(&into, "I\0\0\0\1", 5);
    put_text(&into, "amount");
    put_bytes(&into, "d\x40\x59\0\0\0\0\0\0", 9);
    set_size(&into, table, into.length - table - 4);
    put_number(&into, options.transient ? 1 : 2, 1);
    put_number(&into, 32, 1);
    self->id = into.length;
    memset(buffer_extend(&into, 32), '0', 32);
    put_number(&into, 1700000000, 8);
    frame_close(&into, start);
    start = frame_open(&into, FRAME_BODY, 1);
    self->time = into.length;
    memset(buffer_extend(&into, (size_t)body_size(place)), 'x', (size_t)body_size(place));
    frame_close(&into, start);
    self->bytes = into.bytes, self->size = into.length;
}

/* ---- publishing ---- */

static void stamp(struct client *self, struct frame *frame)
{
    static const char digits[] = "0123456789abcdef";
    static uint64_t numbered;
    uint64_t number = ++numbered * 0x9E3779B97F4A7C15u, now = clock_ns(); /* odd: none is equal */
    for (int i = 0; i < 16; i++)
        frame->bytes[frame->id + (size_t)i] = (uint8_t)digits[number >> (60 - 4 * i) & 15];
    memcpy(frame->bytes + frame->time, &now, sizeof now);
    if (self->is_091)
        return;
    uint32_t id = __builtin_bswap32((uint32_t)self->published);
    memcpy(frame->bytes + frame->delivery, &id, 4);
    memcpy(frame->bytes + frame->delivery + 6, &id, 4);
}

static bool may_publish(const struct client *self, uint64_t started)
{
    if (self->published - self->settled >= (uint64_t)options.window)
        return false;
    if (options.rate > 0) {
        double due = (double)(clock_ns() - started) * options.rate / options.publishers / 1e9;
        if ((double)self->published >= due)
            return false;
    }
    return self->is_091 || ((int32_t)(self->limit - self->count) > 0
                            && (int32_t)(self->window_end - self->count) > 0);
}

/* Sends frames until the socket is full or nothing may be sent; true if more could follow. */
static bool publish(struct client *self, uint64_t started)
{
    for (int pieces = 0; pieces < 4; pieces++) {
        for (int i = 0; i < PIECE && !self->unsent && may_publish(self, started); i++) {
            struct frame *frame = self->ring + self->next;
            stamp(self, frame);
            put_bytes(&self->output, (char *)frame->bytes, frame->size);
            self->next = (self->next + 1) % RING;
            self->count++, self->published++, published++;
        }
        if (!self->output.length)
            return false;
        size_t left = self->output.length - self->unsent;
        const uint8_t *from = self->output.bytes + self->unsent;
        ssize_t sent = send(self->fd, from, left, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            fail("lost a publisher: %s", strerror(errno));
        self->unsent += sent > 0 ? (size_t)sent : 0;
        if (self->unsent < self->output.length)
            return false;
        self->unsent = self->output.length = 0;
    }
    return true;
}

/* ---- consuming ---- */

static void put_flow(struct client *self)
{
    struct buffer *into = &self->output;
    size_t frame = open_frame(into, 0), list = compound(into, FLOW, 0xD0, 7);
    put_uint(into, self->first_incoming + self->received);
    put_uint(into, WIDE_WINDOW);
    put_uint(into, 0);
    put_uint(into, WIDE_WINDOW);
    put_bytes(into, "\x43", 1);
    put_uint(into, self->received);
    put_uint(into, (uint32_t)options.credit);
    end_compound(into, list);
    end_frame(into, frame);
    self->credit_end = self->received + (uint32_t)options.credit;
}

static void put_disposition(struct client *self, uint32_t last)
{
    struct buffer *into = &self->output;
    size_t frame = open_frame(into, 0), list = compound(into, DISPOSITION, 0xD0, 5);
    put_bytes(into, "\x41", 1);
    put_uint(into, self->first);
    put_uint(into, last);
    put_bytes(into, "\x41\0\x53\x24\x45", 5);
    end_compound(into, list);
    end_frame(into, frame);
    self->unsettled = 0;
}

static void put_ack(struct client *self)
{
    size_t start = method_open(&self->output, 1, BASIC_ACK);
    put_number(&self->output, self->tag, 8);
    put_number(&self->output, 1, 1);
    frame_close(&self->output, start);
    self->unsettled = 0;
}

static void send_output(struct client *self)
{
    while (self->output.length) {
        ssize_t sent = send(self->fd, self->output.bytes, self->output.length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            fail("lost a consumer: %s", strerror(errno));
        if (sent <= 0)
            return;
        self->output.length -= (size_t)sent;
        memmove(self->output.bytes, self->output.bytes + sent, self->output.length);
    }
}

static void note_message(const uint8_t *body, uint64_t now)
{
    uint64_t then;
    memcpy(&then, body, sizeof then);
    if (measuring)
        latency_record(&latency, now > then ? now - then : 0);
}

static void take_transfer(struct client *self, const struct field *fields, const uint8_t *payload,
                          const uint8_t *end, uint64_t now)
{
    /* The sections before the body are walked over. */
    while (payload < end && payload[2] != 0x75) {
        const uint8_t *at = payload + 3;
        payload = *at == 0x45 ? at + 1
                  : *at & 0x10 ? at + 5 + load_u32(at + 1) : at + 2 + at[1];
    }
    if (payload >= end)
        fail("a message without a body");
    note_message(payload + (payload[3] == 0xA0 ? 5 : 8), now);
    if (!self->unsettled)
        self->first = (uint32_t)fields[1].number;
    self->received++, consumed++;
    if (++self->unsettled >= options.settle_every)
        put_disposition(self, (uint32_t)fields[1].number);
    if ((int32_t)(self->credit_end - self->received) <= options.credit / 2)
        put_flow(self);
}

static void take_10(struct client *self, const uint8_t *frame, size_t size, uint64_t now)
{
    struct field fields[FIELDS_MAX];
    const uint8_t *end, *stop = frame + size;
    if (size == 8)
        return;
    int got = read_fields(frame + 4 * frame[4], fields, &end);
    if (got == TRANSFER) {
        take_transfer(self, fields, end, stop, now);
    } else if (got == DISPOSITION && self->publishes) {
        uint64_t first = fields[1].number, last = fields[2].code ? fields[2].number : first;
        if (fields[2].code == 0x40)
            last = first;
        self->settled += last - first + 1;
        *(fields[4].number == ACCEPTED ? &confirmed : &refused) += last - first + 1;
    } else if (got == FLOW && self->publishes) {
        if (fields[0].code != 0x40)
            self->window_end = (uint32_t)(fields[0].number + fields[1].number);
        if (fields[4].code && fields[4].code != 0x40)
            self->limit = (uint32_t)(fields[5].number + fields[6].number);
    } else if (got == END || got == CLOSE_10 || got == DETACH) {
        fail("the broker ends: %.*s", (int)(size - 8), (const char *)frame + 8);
    }
}

static void take_091(struct client *self, const uint8_t *frame, size_t size, uint64_t now)
{
    if (frame[0] == FRAME_METHOD) {
        uint32_t method = load_u32(frame + 7);
        if (method == BASIC_DELIVER) {
            self->tag = load_u64(frame + 12 + frame[11]);
        } else if (method == BASIC_ACK || method == BASIC_NACK) {
            uint64_t tag = load_u64(frame + 11), count = frame[19] & 1 ? tag - self->settled : 1;
            self->settled += count;
            *(method == BASIC_ACK ? &confirmed : &refused) += count;
        } else {
            refuse_close(method, frame + 11);
        }
    } else if (frame[0] == FRAME_HEADER) {
        self->body_left = load_u64(frame + 11);
        self->body_starts = true;
    } else if (frame[0] == FRAME_BODY) {
        if (self->body_starts)
            note_message(frame + FRAME_HEAD_SIZE, now);
        self->body_starts = false;
        self->body_left -= size - FRAME_OVERHEAD;
        if (!self->body_left) {
            consumed++;
            if (++self->unsettled >= options.settle_every)
                put_ack(self);
        }
    }
}

static void receive(struct client *self)
{
    ssize_t count = recv(self->fd, self->input + self->length, INPUT_SIZE - self->length, 0);
    if (count == 0)
        fail("the broker hung up");
    if (count < 0 && errno != EAGAIN)
        fail("cannot receive: %s", strerror(errno));
    self->length += count > 0 ? (size_t)count : 0;
    const uint8_t *at = self->input, *stop = at + self->length;
    uint64_t now = measuring ? clock_ns() : 0;
    while (stop - at >= 8) {
        size_t size = self->is_091 ? load_u32(at + 3) + FRAME_OVERHEAD : load_u32(at);
        if (size > INPUT_SIZE)
            fail("a frame of %zu bytes", size);
        if (size > (size_t)(stop - at))
            break;
        (self->is_091 ? take_091 : take_10)(self, at, size, now);
        at += size;
    }
    self->length = (size_t)(stop - at);
    memmove(self->input, at, self->length);
    if (!self->publishes)
        send_output(self);
}

/* ---- the loop ---- */

static struct pollfd watched[CLIENTS_MAX];

static void open_client(struct client *self, int index, bool publishes)
{
    self->index = index;
    self->publishes = publishes;
    self->is_091 = publishes ? options.publish_091 : options.consume_091;
    self->input = malloc(INPUT_SIZE);
    if (self->is_091) {
        self->fd = open_channels(&options.peer, 1);
        if (publishes) {
            call_select(self->fd, CONFIRM_SELECT);
        } else {
            call_qos(self->fd, options.credit);
            call_consume(self->fd, queue_of(index), false);
        }
    } else {
        open_10(self);
        if (!publishes)
            put_flow(self);
    }
    self->ring = publishes ? calloc(RING, sizeof *self->ring) : NULL;
    for (int i = 0; publishes && i < RING; i++) {
        if (self->is_091)
            make_frame_091(self->ring + i, i, queue_of(index));
        else
            make_frame_10(self->ring + i, i);
    }
    fcntl(self->fd, F_SETFL, O_NONBLOCK);
    if (!publishes)
        send_output(self);
}

static bool turn(uint64_t started, bool busy, bool publishing)
{
    int count = options.publishers + options.consumers;
    struct timespec patience = {.tv_nsec = busy ? 0 : options.rate > 0 ? 200000 : 20000000};
    for (int i = 0; i < count; i++) {
        bool writes = clients[i].publishes ? clients[i].unsent : clients[i].output.length;
        watched[i] = (struct pollfd){clients[i].fd, POLLIN | (writes ? POLLOUT : 0), 0};
    }
    ppoll(watched, (nfds_t)count, &patience, NULL);
    busy = false;
    for (int i = 0; i < count; i++) {
        struct client *client = clients + i;
        if (watched[i].revents & (POLLIN | POLLHUP | POLLERR))
            receive(client);
        if (!client->publishes)
            send_output(client);
        else if (publishing || client->unsent)
            busy |= publish(client, started);
    }
    return busy;
}

static void run_until(uint64_t started, uint64_t stop)
{
    for (bool busy = true; clock_ns() < stop;)
        busy = turn(started, busy, true);
}

static void settle_rest(void)
{
    for (int i = options.publishers; i < options.publishers + options.consumers; i++) {
        struct client *client = clients + i;
        if (!client->unsettled)
            continue;
        if (client->is_091)
            put_ack(client);
        else
            put_disposition(client, client->first + (uint32_t)client->unsettled - 1);
        send_output(client);
    }
}

static double processor_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec)
           + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void read_options(int count, char **words)
{
    struct option forms[KNOWN + 1] = {0};
    for (int i = 0; i < KNOWN; i++)
        forms[i] = (struct option){known[i].name, known[i].kind != 's', NULL, i};
    for (int index; getopt_long(count, words, "", forms, &index) != -1;) {
        void *target = known[index].target;
        switch (known[index].kind) {
        case 't': *(const char **)target = optarg; break;
        case 'i': *(int *)target = atoi(optarg); break;
        case 'd': *(double *)target = atof(optarg); break;
        default: *(int *)target = 1;
        }
    }
    if (optind < count || options.publishers + options.consumers > CLIENTS_MAX) {
        for (int i = 0; i < KNOWN; i++)
            fprintf(stderr, "--%-14s %s\n", known[i].name, known[i].help);
        exit(2);
    }
}

int main(int count, char **words)
{
    read_options(count, words);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm((unsigned)options.limit);
    int control = open_channels(&options.peer, 1);
    for (int i = 0; i < options.queues; i++)
        call_declare_queue(control, queue_of(i), QUEUE_DURABLE, false);
    for (int i = 0; i < options.publishers + options.consumers; i++) {
        bool publishes = i < options.publishers;
        open_client(clients + i, publishes ? i : i - options.publishers, publishes);
    }
    uint64_t started = clock_ns(), begin = started + (uint64_t)(options.warmup * 1e9);
    run_until(started, begin);
    uint64_t first_confirmed = confirmed, first_consumed = consumed;
    measuring = true;
    begin = clock_ns();
    run_until(started, begin + (uint64_t)(options.seconds * 1e9));
    measuring = false;
    double seconds = (double)(clock_ns() - begin) / 1e9;
    double publish_rate = (double)(confirmed - first_confirmed) / seconds;
    double consume_rate = (double)(consumed - first_consumed) / seconds;
    uint64_t stop = clock_ns() + (uint64_t)(options.drain * 1e9);
    while (clock_ns() < stop && (consumed < published || confirmed + refused < published))
        turn(started, false, false);
    settle_rest();
    for (int i = 0; i < options.queues; i++)
        call_delete_queue(control, queue_of(i));
    call_close(control);
    printf("{\"seconds\": %.3f, \"publish_rate\": %.0f, \"consume_rate\": %.0f, \"published\": %llu, "
           "\"confirmed\": %llu, \"refused\": %llu, \"consumed\": %llu, \"drained\": %s, "
           "\"generator_cpu_seconds\": %.3f, \"latency_us\": {\"p50\": %.0f, \"p99\": %.0f, "
           "\"max\": %.0f}}\n",
           seconds, publish_rate, consume_rate, (unsigned long long)published,
           (unsigned long long)confirmed, (unsigned long long)refused,
           (unsigned long long)consumed,
           consumed >= published && confirmed + refused >= published ? "true" : "false",
           processor_seconds(), latency_quantile(&latency, 0.5), latency_quantile(&latency, 0.99),
           (double)latency.longest_ns / 1e3);
    return 0;
}
