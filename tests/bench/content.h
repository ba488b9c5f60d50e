/* The content of a message that arrives: complete with the last byte of its body, in however many
 * frames that came. The body's first bytes are the time at which it was sent.
 */
#ifndef LEVERET_BENCH_CONTENT_H
#define LEVERET_BENCH_CONTENT_H

#include "run.h"

struct content {
    uint64_t body_left;
    bool body_starts;
};

/* Takes a header or body frame; true if the message is complete with it, and counted. */
static inline bool take_content(struct content *self, const uint8_t *frame, size_t size,
                                uint64_t now)
{
    if (frame[0] == FRAME_HEADER) {
        self->body_left = load_u64(frame + 11);
        self->body_starts = true;
    } else {
        const uint8_t *body = frame + FRAME_HEAD_SIZE;
        uint64_t stamp;
        size -= FRAME_OVERHEAD;
        if (measuring && self->body_starts && size >= sizeof stamp) {
            memcpy(&stamp, body, sizeof stamp);
            latency_record(&latency, now > stamp ? now - stamp : 0);
        }
        self->body_starts = false;
        self->body_left -= size;
    }
    total.consumed += !self->body_left;
    return !self->body_left;
}

#endif
