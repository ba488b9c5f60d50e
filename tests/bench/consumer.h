/* Consumers: deliveries are counted where they were received, and acknowledged in batches.
 *
 * The acks for all that one read brought leave with one write. With `--get` a consumer has no
 * deliveries but asks for one message after the other, and again where the queue is empty.
 */
#ifndef LEVERET_BENCH_CONSUMER_H
#define LEVERET_BENCH_CONSUMER_H

#include "content.h"

enum { RECEIVE_SIZE = 1 << 18, ACK_SIZE = 21, DELIVER_TAG = 11 };

struct consumer {
    int fd;
    uint8_t *input;
    size_t input_length;
    uint64_t tag, unacked;
    struct content delivered;
    struct buffer output, get;  /* acks and gets to be sent; the frame of a get */
};

static void put_ack(struct consumer *self)
{
    static const uint8_t form[ACK_SIZE] = {FRAME_METHOD, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80,
                                           [ACK_SIZE - 1] = FRAME_END};
    uint8_t *ack = buffer_extend(&self->output, ACK_SIZE);
    memcpy(ack, form, ACK_SIZE);
    store_u64(ack + 11, self->tag);
    ack[19] = self->unacked > 1;
    self->unacked = 0;
}

static void put_get(struct consumer *self)
{
    memcpy(buffer_extend(&self->output, self->get.length), self->get.bytes, self->get.length);
}

static inline void message_done(struct consumer *self)
{
    if (!options.auto_ack && ++self->unacked >= (uint64_t)options.ack_every)
        put_ack(self);
    if (options.get)
        put_get(self);
}

static inline void take_frame(struct consumer *self, const uint8_t *frame, size_t size,
                              uint64_t now)
{
    if (frame[0] == FRAME_BODY || frame[0] == FRAME_HEADER) {
        if (take_content(&self->delivered, frame, size, now))
            message_done(self);
    } else if (frame[0] == FRAME_METHOD) {
        uint32_t method = load_u32(frame + 7);
        if (method == BASIC_DELIVER)
            self->tag = load_u64(frame + DELIVER_TAG + 1 + frame[DELIVER_TAG]);
        else if (method == BASIC_GET_OK)
            self->tag = load_u64(frame + 11);
        else if (method == BASIC_GET_EMPTY)
            put_get(self);
        else
            refuse_close(method, frame + 11);
    }
}

static void send_output(struct consumer *self)
{
    if (!self->output.length)
        return;
    ssize_t sent = socket_send(self->fd, self->output.bytes, self->output.length);
    if (sent < 0 && errno != EAGAIN)
        fail("lost a consumer: %s", strerror(errno));
    if (sent <= 0)
        return;
    self->output.length -= (size_t)sent;
    memmove(self->output.bytes, self->output.bytes + sent, self->output.length);
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
        send_output(self);
    }
}

static void prepare_get(struct consumer *self, const char *queue)
{
    size_t start = method_open(&self->get, 1, BASIC_GET);
    put_number(&self->get, 0, 2);
    put_text(&self->get, queue);
    put_number(&self->get, options.auto_ack, 1);
    frame_close(&self->get, start);
}

static void open_consumer(struct consumer *self, int index)
{
    const char *queue = queue_name(index % options.queues);
    struct peer peer = options.peer;
    if (options.consumer_port)
        peer.port = options.consumer_port;
    self->fd = open_channels(&peer, 1);
    self->input = malloc(RECEIVE_SIZE);
    call_qos(self->fd, options.prefetch);
    if (options.get) {
        prepare_get(self, queue);
        put_get(self);
    } else {
        call_consume(self->fd, queue, options.auto_ack);
    }
}

#endif
