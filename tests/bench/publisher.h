/* Publishers: runs of ready frames, sent in slices, and the confirms that come back.
 *
 * The frames of a run are made once and sent from where they are; of a slice only the time in
 * the bodies is set before it goes out. What a full socket did not take goes first next time. A
 * window is filled again when an eighth of it is open, so that confirms that come one by one do
 * not cost a write each.
 */
#ifndef LEVERET_BENCH_PUBLISHER_H
#define LEVERET_BENCH_PUBLISHER_H

#include "run.h"

enum { RUN_BYTES = 1 << 18, RUN_BURSTS = 4, CONFIRM_BYTES = 1 << 16, WINDOW_SHARE = 8 };

/* A publisher's connection: `run` holds `run_length` messages, message i from `starts[i]` on. */
struct publisher {
    int fd;
    bool writable;
    struct buffer run;
    size_t *starts, *stamps;
    int run_length, next;
    size_t unsent, unsent_end;  /* the part of the run that a full socket did not take */
    uint64_t published;
    uint64_t oldest;            /* the lowest delivery tag that is not confirmed yet */
    uint8_t *confirmed;         /* by tag modulo `confirmed_mask` + 1 */
    uint64_t confirmed_mask;
    uint8_t input[CONFIRM_BYTES];
    size_t input_length;
};

/* A table field: a text, or a number of four bytes. */
static void put_text_field(struct buffer *into, const char *name, const char *value)
{
    put_text(into, name);
    put_number(into, 'S', 1);
    put_number(into, strlen(value), 4);
    memcpy(buffer_extend(into, strlen(value)), value, strlen(value));
}

static void put_number_field(struct buffer *into, const char *name, int value)
{
    put_text(into, name);
    put_number(into, 'I', 1);
    put_number(into, (uint64_t)value, 4);
}

/* Properties as programs set them: a content type, headers, a message id and a timestamp. */
static void put_own_properties(struct buffer *into, int index)
{
    char id[33], source[33];
    snprintf(id, sizeof id, "%032llx", (unsigned long long)index * 2654435761ull);
    snprintf(source, sizeof source, "service-%d", index % 20);
    put_number(into, 1 << 15 | 1 << 13 | 1 << 12 | 1 << 7 | 1 << 6, 2);
    put_text(into, "application/json");
    size_t table = into->length;
    put_number(into, 0, 4);
    put_text_field(into, "source", source);
    put_number_field(into, "attempt", index);
    uint32_t size = (uint32_t)(into->length - table - 4);
    for (int i = 0; i < 4; i++)
        into->bytes[table + (size_t)i] = (uint8_t)(size >> (24 - 8 * i));
    put_number(into, options.durable ? 2 : 1, 1);
    put_text(into, id);
    put_number(into, 1700000000u + (uint64_t)index, 8);
}

static void put_publish(struct publisher *self, const char *key, int size, int index)
{
    size_t start = method_open(&self->run, 1, BASIC_PUBLISH);
    put_number(&self->run, 0, 2);
    put_text(&self->run, exchange_name());
    put_text(&self->run, key);
    put_number(&self->run, 0, 1);
    frame_close(&self->run, start);
    start = frame_open(&self->run, FRAME_HEADER, 1);
    put_number(&self->run, (uint64_t)60 << 16, 4);
    put_number(&self->run, (uint64_t)size, 8);
    if (options.own_properties) {
        put_own_properties(&self->run, index);
    } else {
        put_number(&self->run, 1 << 12, 2); /* only the delivery mode is set */
        put_number(&self->run, options.durable ? 2 : 1, 1);
    }
    frame_close(&self->run, start);
}

static void put_body(struct publisher *self, int size)
{
    for (int left = size; left > 0;) {
        int part = left < FRAME_MAX - FRAME_OVERHEAD ? left : FRAME_MAX - FRAME_OVERHEAD;
        size_t start = frame_open(&self->run, FRAME_BODY, 1);
        memset(buffer_extend(&self->run, (size_t)part), 'x', (size_t)part);
        frame_close(&self->run, start);
        left -= part;
    }
}

/* A few bursts long where that fits, or a burst would often be cut by the end of the run. */
static int choose_run_length(void)
{
    if (options.topology == TO_TOPIC)
        return options.bindings;
    int fitting = RUN_BYTES / (options.size + options.vary + 64);
    int wanted = RUN_BURSTS * options.burst;
    if (wanted < options.queues)
        wanted = options.queues;
    return fitting < 1 ? 1 : fitting < wanted ? fitting : wanted;
}

/* Neighbours in a run differ in size if `--vary` is set; the factor spreads the sizes. */
static int body_size(int index)
{
    return options.size + (int)((int64_t)index * 37 % (options.vary + 1));
}

/* A publisher keeps to one queue; where there are more queues than publishers it goes round. */
static int queue_of(int publisher, int message)
{
    bool round = options.queues > options.publishers && options.queues > options.consumers;
    return (publisher + (round ? message * options.publishers : 0)) % options.queues;
}

static void prepare_run(struct publisher *self, int index)
{
    bool topic = options.topology == TO_TOPIC;
    self->run_length = choose_run_length();
    self->starts = calloc((size_t)self->run_length + 1, sizeof *self->starts);
    self->stamps = calloc((size_t)self->run_length, sizeof *self->stamps);
    for (int i = 0; i < self->run_length; i++) {
        const char *key = topic ? routing_key("bench.%d.x", i) : queue_name(queue_of(index, i));
        put_publish(self, key, body_size(i), index * self->run_length + i);
        self->stamps[i] = self->run.length + FRAME_HEAD_SIZE;
        put_body(self, body_size(i));
        self->starts[i + 1] = self->run.length;
    }
}

static void open_publisher(struct publisher *self, int index)
{
    self->fd = open_channel(&options.peer);
    self->writable = true;
    self->oldest = 1;
    if (options.window) {
        uint64_t slots = 1;
        while (slots < (uint64_t)options.window)
            slots *= 2;
        self->confirmed = calloc(slots, 1);
        self->confirmed_mask = slots - 1;
        call_select_confirms(self->fd);
    }
    prepare_run(self, index);
}

/* How many messages may go out now: by the window, the rate and the end of the run. */
static int allowance(const struct publisher *self, uint64_t elapsed_ns)
{
    int64_t count = self->run_length - self->next;
    if (count > options.burst)
        count = options.burst;
    if (options.window) {
        /* Up to the oldest open tag, for that is as far as `confirmed` can tell tags apart. */
        int64_t open = options.window - (int64_t)(self->published + 1 - self->oldest);
        if (open < options.window / WINDOW_SHARE)
            return 0;
        count = count < open ? count : open;
    }
    if (options.count) {
        int64_t left = options.count / options.publishers - (int64_t)self->published;
        count = count < left ? count : left;
    }
    if (options.rate > 0) {
        double due = (double)elapsed_ns * options.rate / options.publishers / 1e9;
        int64_t late = (int64_t)due - (int64_t)self->published;
        count = count < late ? count : late;
    }
    return (int)count;
}

static void push_run(struct publisher *self)
{
    size_t size = self->unsent_end - self->unsent;
    ssize_t sent = send(self->fd, self->run.bytes + self->unsent, size, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN)
        fail("lost a publisher: %s", strerror(errno));
    self->unsent += sent > 0 ? (size_t)sent : 0;
    self->writable = sent == (ssize_t)size;
}

/* Publishes one burst, or what is left of the last; true if more could follow at once. */
static bool publish(struct publisher *self, uint64_t started)
{
    if (!self->writable)
        return false;
    if (self->unsent < self->unsent_end) {
        push_run(self);
        return self->writable;
    }
    uint64_t now = clock_ns();
    int count = allowance(self, now - started);
    if (count <= 0)
        return false;
    int end = self->next + count;
    if (options.size >= (int)sizeof now)
        for (int i = self->next; i < end; i++)
            memcpy(self->run.bytes + self->stamps[i], &now, sizeof now);
    self->unsent = self->starts[self->next];
    self->unsent_end = self->starts[end];
    self->next = end == self->run_length ? 0 : end;
    self->published += (uint64_t)count;
    total.published += (uint64_t)count;
    push_run(self);
    return self->writable && allowance(self, now - started) > 0;
}

static void settle(struct publisher *self, uint64_t tag, bool multiple, bool positive)
{
    uint64_t first = multiple ? self->oldest : tag, newly = 0;
    if (tag > self->published || tag < self->oldest)
        fail("message %llu is confirmed and was not open", (unsigned long long)tag);
    for (uint64_t at = first; at <= tag; at++) {
        newly += !self->confirmed[at & self->confirmed_mask];
        self->confirmed[at & self->confirmed_mask] = 1;
    }
    while (self->oldest <= self->published && self->confirmed[self->oldest & self->confirmed_mask])
        self->confirmed[self->oldest++ & self->confirmed_mask] = 0;
    *(positive ? &total.confirmed : &total.refused) += newly;
}

static void read_confirms(struct publisher *self)
{
    bool more = true;
    while (more) {
        more = receive(self->fd, self->input, &self->input_length, sizeof self->input);
        const uint8_t *at = self->input, *end = at + self->input_length;
        for (size_t size; (size = frame_size(at, end)); at += size) {
            uint32_t method = at[0] == FRAME_METHOD ? load_u32(at + 7) : 0;
            if (method == BASIC_ACK || method == BASIC_NACK)
                settle(self, load_u64(at + 11), at[19] & 1, method == BASIC_ACK);
            else
                refuse_close(method, at + 11);
        }
        keep_rest(self->input, &self->input_length, at);
    }
}

#endif
