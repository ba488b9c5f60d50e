/* What a run is told to do, what it has counted, and what both kinds of connection share.
 *
 * Names carry the process id, so that two generators on one broker do not meet, unless `--name`
 * says that they are to. `receive`,
 * `frame_size` and `keep_rest` are the loop in which frames are looked at where they arrived.
 */
#ifndef LEVERET_BENCH_RUN_H
#define LEVERET_BENCH_RUN_H

#include "amqp.h"
#include "latency.h"

struct options {
    struct peer peer;
    int publishers, consumers, queues, size, vary, window, ack_every, prefetch, burst, in_flight;
    int channels, copies, transaction, idle, declare, limit, count, consumer_port;
    const char *name, *addresses, *properties;
    bool auto_ack, durable, keep, lazy, declared, in_turn, spaced, mandatory, get;
    double seconds, warmup, drain, rate;
};

struct counts {
    uint64_t published, consumed, confirmed, refused;  /* what came back unroutable is consumed */
};

static struct options options = {
    .peer = {"127.0.0.1", "guest", "guest", "/", 5672},
    .publishers = 1, .consumers = 1, .queues = 1, .size = 1024, .ack_every = 1, .prefetch = 1000,
    .burst = 64, .channels = 1, .copies = 1, .limit = 120, .seconds = 5, .warmup = 1, .drain = 3,
};
static struct counts total;
static struct latency latency;
static bool measuring;

static const char *queue_name(int index)
{
    static char name[64];
    if (options.name)
        snprintf(name, sizeof name, "%s-%d", options.name, index);
    else
        snprintf(name, sizeof name, "bench-%d-%d", (int)getpid(), index);
    return name;
}

/* One read into what is free of `input`; true if the socket may hold more. */
static bool receive(int fd, uint8_t *input, size_t *length, size_t capacity)
{
    size_t space = capacity - *length;
    ssize_t count = socket_receive(fd, input + *length, space, false);
    if (count == 0)
        fail("the broker hung up");
    if (count < 0 && errno != EAGAIN)
        fail("cannot receive: %s", strerror(errno));
    *length += count > 0 ? (size_t)count : 0;
    return count == (ssize_t)space;
}

/* The size of the whole frame at `at`, or 0 if it has not arrived completely. */
static inline size_t frame_size(const uint8_t *at, const uint8_t *end)
{
    if (end - at < FRAME_OVERHEAD)
        return 0;
    size_t size = (size_t)load_u32(at + 3) + FRAME_OVERHEAD;
    if (size > (size_t)(end - at))
        return 0;
    if (at[size - 1] != FRAME_END)
        fail("a frame does not end where it should");
    return size;
}

static void keep_rest(uint8_t *input, size_t *length, const uint8_t *from)
{
    *length = (size_t)(input + *length - from);
    if (*length && from != input)
        memmove(input, from, *length);
}

#endif
