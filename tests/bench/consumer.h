/* Consumers: deliveries are counted where they were received, and acknowledged in batches.
 *
 * A message is complete with the last byte of its body, in however many frames that came. The
 * acks for all that one read brought leave with one write.
 */
#ifndef LEVERET_BENCH_CONSUMER_H
#define LEVERET_BENCH_CONSUMER_H

#include "run.h"

enum { RECEIVE_SIZE = 1 << 18, ACK_SIZE = 21, DELIVER_TAG = 11 };

struct consumer {
    int fd;
    uint8_t *input;
    size_t input_length;
    uint64_t tag, unacked, body_left;
    bool body_starts;
    struct buffer acks;
};

static void put_ack(struct consumer *self)
{
    static const uint8_t form[ACK_SIZE] = {FRAME_METHOD, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80,
                                           [ACK_SIZE - 1] = FRAME_END};
    uint8_t *ack = buffer_extend(&self->acks, ACK_SIZE);
    memcpy(ack, form, ACK_SIZE);
    store_u64(ack + 11, self->tag);
    ack[19] = self->unacked > 1;
    self->unacked = 0;
}

static inline void message_done(struct consumer *self)
{
    total.consumed++;
    if (!options.auto_ack && ++self->unacked >= (uint64_t)options.ack_every)
        put_ack(self);
}

static inline void take_body(struct consumer *self, const uint8_t *body, size_t size, uint64_t now)
{
    uint64_t stamp;
    if (measuring && self->body_starts && size >= sizeof stamp) {
        memcpy(&stamp, body, sizeof stamp);
        latency_record(&latency, now > stamp ? now - stamp : 0);
    }
    self->body_starts = false;
    self->body_left -= size;
    if (!self->body_left)
        message_done(self);
}

static inline void take_frame(struct consumer *self, const uint8_t *frame, size_t size,
                              uint64_t now)
{
    if (frame[0] == FRAME_BODY) {
        take_body(self, frame + FRAME_HEAD_SIZE, size - FRAME_OVERHEAD, now);
    } else if (frame[0] == FRAME_HEADER) {
        self->body_left = load_u64(frame + 11);
        self->body_starts = true;
        if (!self->body_left)
            message_done(self);
    } else if (frame[0] == FRAME_METHOD) {
        uint32_t method = load_u32(frame + 7);
        if (method == BASIC_DELIVER)
            self->tag = load_u64(frame + DELIVER_TAG + 1 + frame[DELIVER_TAG]);
        else
            refuse_close(method, frame + 11);
    }
}

static void send_acks(struct consumer *self)
{
    if (!self->acks.length)
        return;
    ssize_t sent = send(self->fd, self->acks.bytes, self->acks.length, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN)
        fail("lost a consumer: %s", strerror(errno));
    if (sent <= 0)
        return;
    self->acks.length -= (size_t)sent;
    memmove(self->acks.bytes, self->acks.bytes + sent, self->acks.length);
}

static void read_deliveries(struct consumer *self)
{
    bool more = true;
    while (more) {
        more = receive(self->fd, self->input, &self->input_length, RECEIVE_SIZE);
        const uint8_t *at = self->input, *end = at + self->input_length;
        uint64_t now = measuring ? clock_ns() : 0;
        for (size_t size; (size = frame_size(at, end)); at += size)
            take_frame(self, at, size, now);
        keep_rest(self->input, &self->input_length, at);
        send_acks(self);
    }
}

static void open_consumer(struct consumer *self, int index)
{
    self->fd = open_channel(&options.peer);
    self->input = malloc(RECEIVE_SIZE);
    call_consume(self->fd, queue_name(index % options.queues), options.auto_ack, options.prefetch);
}

#endif
