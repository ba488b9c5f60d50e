/* Publishers: slices of a run of ready messages, and what the broker answers to them.
 *
 * A slice is sent from where it is in the run. What a full socket did not take goes first next
 * time. A window is filled again when an eighth of it is open, so that confirms that come one by
 * one do not cost a write each. After a transaction a publisher waits for the broker's commit-ok.
 */
#ifndef LEVERET_BENCH_PUBLISHER_H
#define LEVERET_BENCH_PUBLISHER_H

#include "content.h"
#include "messages.h"

enum { ANSWER_BYTES = 1 << 17, WINDOW_SHARE = 8 };

struct publisher {
    int fd;
    bool writable, committing;
    struct run run;
    int next;                   /* the message of the run that is sent next */
    size_t unsent, unsent_end;  /* the part of the run that a full socket did not take */
    uint64_t published;
    uint64_t oldest;            /* the lowest delivery tag that is not confirmed yet */
    uint8_t *confirmed;         /* by tag modulo `confirmed_mask` + 1 */
    uint64_t confirmed_mask;
    struct content returned;
    uint8_t input[ANSWER_BYTES];
    size_t input_length;
};

static void open_window(struct publisher *self)
{
    uint64_t slots = 1;
    while (slots < (uint64_t)options.window)
        slots *= 2;
    self->oldest = 1;
    self->confirmed = calloc(slots, 1);
    self->confirmed_mask = slots - 1;
    call_select(self->fd, CONFIRM_SELECT);
}

static void open_publisher(struct publisher *self, int index)
{
    self->fd = open_channels(&options.peer, options.channels);
    self->writable = true;
    if (options.window)
        open_window(self);
    if (options.transaction)
        call_select(self->fd, TX_SELECT);
    prepare_run(&self->run, index);
}

static int64_t least(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* How many more messages may be unconfirmed: none until a share of the window is open. Tags count
 * up to the oldest open one, for that is as far as `confirmed` can tell tags apart. */
static int64_t window_left(const struct publisher *self)
{
    int64_t open = options.window - (int64_t)(self->published + 1 - self->oldest);
    return open < options.window / WINDOW_SHARE ? 0 : open;
}

/* How many messages may go out at once: by the run, the window, the rate and all other limits. */
static int allowance(const struct publisher *self, uint64_t elapsed_ns)
{
    int64_t count = least(self->run.length - self->next, options.burst);
    if (options.window)
        count = least(count, window_left(self));
    if (options.count)
        count = least(count, options.count / options.publishers - (int64_t)self->published);
    if (options.in_flight) {
        uint64_t copies = total.published * (uint64_t)options.copies;
        count = least(count, options.in_flight - (int64_t)(copies - total.consumed));
    }
    if (options.rate > 0) {
        double due = (double)elapsed_ns * options.rate / options.publishers / 1e9;
        count = least(count, (int64_t)due - (int64_t)self->published);
    }
    if (options.transaction) /* whole ones, one after the other */
        count = self->committing || count < options.transaction ? 0 : options.transaction;
    return (int)count;
}

/* When the next message is due by the rate, in nanoseconds after the start. */
static int64_t due_at(const struct publisher *self)
{
    return (int64_t)((double)(self->published + 1) * 1e9 * options.publishers / options.rate);
}

static void push_run(struct publisher *self)
{
    size_t size = self->unsent_end - self->unsent;
    ssize_t sent = socket_send(self->fd, self->run.bytes.bytes + self->unsent, size);
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
    stamp_messages(&self->run, self->next, end, now);
    self->unsent = self->run.messages[self->next].start;
    self->unsent_end = self->run.messages[end].start;
    self->committing = options.transaction && end % options.transaction == 0;
    self->next = end == self->run.length ? 0 : end;
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

static inline void take_answer(struct publisher *self, const uint8_t *frame, size_t size,
                               uint64_t now)
{
    if (frame[0] != FRAME_METHOD) {
        if (frame[0] == FRAME_HEADER || frame[0] == FRAME_BODY)
            take_content(&self->returned, frame, size, now);
        return;
    }
    uint32_t method = load_u32(frame + 7);
    if (method == BASIC_ACK || method == BASIC_NACK)
        settle(self, load_u64(frame + 11), frame[19] & 1, method == BASIC_ACK);
    else if (method == TX_COMMIT_OK)
        self->committing = false;
    else
        refuse_close(method, frame + 11);
}

static void read_answers(struct publisher *self)
{
    bool more = true;
    while (more) {
        more = receive(self->fd, self->input, &self->input_length, sizeof self->input);
        const uint8_t *at = self->input, *end = at + self->input_length;
        uint64_t now = measuring && options.mandatory ? clock_ns() : 0;
        for (size_t size; (size = frame_size(at, end)); at += size)
            take_answer(self, at, size, now);
        keep_rest(self->input, &self->input_length, at);
    }
}

#endif
