/* The little of AMQP 0-9-1 that a load generator speaks.
 *
 * A `struct buffer` grows as frames are put into it; `frame_open` and `frame_close` write what
 * stands around a payload. The functions called `call_...` are the blocking part, used before a
 * measurement starts and after it ends: each sends one method and reads until its answer comes.
 * Whatever goes wrong ends the process with a line on stderr and status 1.
 */
#ifndef LEVERET_BENCH_AMQP_H
#define LEVERET_BENCH_AMQP_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tls.h"

enum { FRAME_METHOD = 1, FRAME_HEADER = 2, FRAME_BODY = 3, FRAME_END = 0xCE };
enum { FRAME_HEAD_SIZE = 7, FRAME_OVERHEAD = 8, FRAME_MAX = 131072 };

/* A method is named by its class in the high half and its number in the low one. */
#define METHOD(class_id, method_id) ((uint32_t)(class_id) << 16 | (method_id))
enum {
    CONNECTION_START = METHOD(10, 10),
    CONNECTION_START_OK = METHOD(10, 11),
    CONNECTION_TUNE = METHOD(10, 30),
    CONNECTION_TUNE_OK = METHOD(10, 31),
    CONNECTION_OPEN = METHOD(10, 40),
    CONNECTION_OPEN_OK = METHOD(10, 41),
    CONNECTION_CLOSE = METHOD(10, 50),
    CONNECTION_CLOSE_OK = METHOD(10, 51),
    CHANNEL_OPEN = METHOD(20, 10),
    CHANNEL_OPEN_OK = METHOD(20, 11),
    CHANNEL_CLOSE = METHOD(20, 40),
    QUEUE_DECLARE = METHOD(50, 10),
    QUEUE_DECLARE_OK = METHOD(50, 11),
    QUEUE_DELETE = METHOD(50, 40),
    QUEUE_DELETE_OK = METHOD(50, 41),
    BASIC_QOS = METHOD(60, 10),
    BASIC_QOS_OK = METHOD(60, 11),
    BASIC_CONSUME = METHOD(60, 20),
    BASIC_CONSUME_OK = METHOD(60, 21),
    BASIC_PUBLISH = METHOD(60, 40),
    BASIC_RETURN = METHOD(60, 50),
    BASIC_DELIVER = METHOD(60, 60),
    BASIC_GET = METHOD(60, 70),
    BASIC_GET_OK = METHOD(60, 71),
    BASIC_GET_EMPTY = METHOD(60, 72),
    BASIC_ACK = METHOD(60, 80),
    BASIC_NACK = METHOD(60, 120),
    CONFIRM_SELECT = METHOD(85, 10),
    CONFIRM_SELECT_OK = METHOD(85, 11),
    TX_SELECT = METHOD(90, 10),
    TX_SELECT_OK = METHOD(90, 11),
    TX_COMMIT = METHOD(90, 20),
    TX_COMMIT_OK = METHOD(90, 21),
};

/* Queue flags of QUEUE_DECLARE. */
enum { QUEUE_DURABLE = 2, QUEUE_EXCLUSIVE = 4, QUEUE_AUTO_DELETE = 8 };

struct buffer {
    uint8_t *bytes;
    size_t length, capacity;
};

struct peer {
    const char *host, *user, *password, *vhost;
    int port;
    bool tls;
};

_Noreturn static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static inline uint64_t clock_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static inline uint16_t load_u16(const uint8_t *from)
{
    return (uint16_t)(from[0] << 8 | from[1]);
}

static inline uint32_t load_u32(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return __builtin_bswap32(value);
}

static inline uint64_t load_u64(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return __builtin_bswap64(value);
}

static inline void store_u64(uint8_t *to, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(to, &value, sizeof value);
}

/* Makes room for `count` more bytes and returns where they go; they count as written. */
static inline uint8_t *buffer_extend(struct buffer *into, size_t count)
{
    if (into->length + count > into->capacity) {
        into->capacity = 2 * (into->length + count);
        into->bytes = realloc(into->bytes, into->capacity);
        if (!into->bytes)
            fail("out of memory");
    }
    into->length += count;
    return into->bytes + into->length - count;
}

static void put_number(struct buffer *into, uint64_t value, int width)
{
    uint8_t *at = buffer_extend(into, (size_t)width);
    while (width--) {
        at[width] = (uint8_t)value;
        value >>= 8;
    }
}

static void put_text(struct buffer *into, const char *text)
{
    size_t length = strlen(text);
    if (length > 255)
        fail("a name of %zu bytes is too long", length);
    put_number(into, length, 1);
    memcpy(buffer_extend(into, length), text, length);
}

/* Starts a frame and returns where it starts, which is what `frame_close` wants to know. */
static size_t frame_open(struct buffer *into, int type, int channel)
{
    size_t start = into->length;
    put_number(into, (uint64_t)type, 1);
    put_number(into, (uint64_t)channel, 2);
    put_number(into, 0, 4);
    return start;
}

static size_t method_open(struct buffer *into, int channel, uint32_t method)
{
    size_t start = frame_open(into, FRAME_METHOD, channel);
    put_number(into, method, 4);
    return start;
}

static void frame_close(struct buffer *into, size_t start)
{
    uint32_t size = (uint32_t)(into->length - start - FRAME_HEAD_SIZE);
    for (int i = 0; i < 4; i++)
        into->bytes[start + 3 + (size_t)i] = (uint8_t)(size >> (24 - 8 * i));
    put_number(into, FRAME_END, 1);
}

static void send_buffer(int fd, struct buffer *from)
{
    for (size_t sent = 0; sent < from->length;) {
        ssize_t count = socket_send(fd, from->bytes + sent, from->length - sent);
        if (count < 0 && errno != EINTR)
            fail("cannot send: %s", strerror(errno));
        sent += count > 0 ? (size_t)count : 0;
    }
    from->length = 0;
}

static void receive_exactly(int fd, uint8_t *into, size_t wanted)
{
    while (wanted) {
        ssize_t count = socket_receive(fd, into, wanted, true);
        if (count == 0)
            fail("the broker hung up");
        if (count < 0 && errno != EINTR)
            fail("cannot receive: %s", strerror(errno));
        into += count > 0 ? count : 0;
        wanted -= count > 0 ? (size_t)count : 0;
    }
}

/* Ends the process when a method says that the broker closes a connection or a channel. */
static inline void refuse_close(uint32_t method, const uint8_t *arguments)
{
    if (method == CONNECTION_CLOSE || method == CHANNEL_CLOSE)
        fail("closed by the broker: %u %.*s", load_u16(arguments), arguments[2], arguments + 3);
}

static void await_method(int fd, uint32_t wanted)
{
    static uint8_t frame[FRAME_MAX];
    for (;;) {
        receive_exactly(fd, frame, FRAME_HEAD_SIZE);
        uint8_t type = frame[0];
        size_t size = load_u32(frame + 3);
        if (size + 1 > sizeof frame)
            fail("a frame of %zu bytes is larger than was agreed", size);
        receive_exactly(fd, frame, size + 1);
        if (type != FRAME_METHOD)
            continue;
        if (load_u32(frame) == wanted)
            return;
        refuse_close(load_u32(frame), frame + 4);
    }
}

/* Closes the frame that starts at `start`, sends all of `request` and waits for the answer. */
static void call(int fd, struct buffer *request, size_t start, uint32_t answer)
{
    frame_close(request, start);
    send_buffer(fd, request);
    await_method(fd, answer);
}

static int connect_socket(const struct peer *peer)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)peer->port)};
    if (inet_pton(AF_INET, peer->host, &address.sin_addr) != 1)
        fail("not an IPv4 address: %s", peer->host);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        fail("cannot connect to %s:%d: %s", peer->host, peer->port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
#ifdef WITH_TLS
    if (peer->tls && !socket_encrypt(fd))
        fail("no TLS session with %s:%d", peer->host, peer->port);
#else
    if (peer->tls)
        fail("built without TLS: install OpenSSL's headers (libssl-dev)");
#endif
    return fd;
}

static void call_login(int fd, const struct peer *peer, struct buffer *request)
{
    size_t start = method_open(request, 0, CONNECTION_START_OK);
    size_t user = strlen(peer->user), password = strlen(peer->password);
    put_number(request, 0, 4);
    put_text(request, "PLAIN");
    put_number(request, user + password + 2, 4);
    put_number(request, 0, 1);
    memcpy(buffer_extend(request, user), peer->user, user);
    put_number(request, 0, 1);
    memcpy(buffer_extend(request, password), peer->password, password);
    put_text(request, "en_US");
    call(fd, request, start, CONNECTION_TUNE);
}

static void call_open_channel(int fd, int channel, struct buffer *request)
{
    size_t start = method_open(request, channel, CHANNEL_OPEN);
    put_number(request, 0, 1);
    call(fd, request, start, CHANNEL_OPEN_OK);
}

/* Opens a connection without heartbeats, and channels 1 to `channels` on it. */
static int open_channels(const struct peer *peer, int channels)
{
    int fd = connect_socket(peer);
    struct buffer request = {0};
    memcpy(buffer_extend(&request, 8), "AMQP\0\0\x09\x01", 8);
    send_buffer(fd, &request);
    await_method(fd, CONNECTION_START);
    call_login(fd, peer, &request);
    size_t start = method_open(&request, 0, CONNECTION_TUNE_OK);
    put_number(&request, 2047, 2);
    put_number(&request, FRAME_MAX, 4);
    put_number(&request, 0, 2);
    frame_close(&request, start);
    start = method_open(&request, 0, CONNECTION_OPEN);
    put_text(&request, peer->vhost);
    put_number(&request, 0, 2);
    call(fd, &request, start, CONNECTION_OPEN_OK);
    for (int channel = 1; channel <= channels; channel++)
        call_open_channel(fd, channel, &request);
    free(request.bytes);
    return fd;
}

/* lazy: with the argument x-queue-mode=lazy. */
static void call_declare_queue(int fd, const char *name, int flags, bool lazy)
{
    static const char mode[] = "\x0cx-queue-modeS\0\0\0\x04lazy";
    struct buffer request = {0};
    size_t start = method_open(&request, 1, QUEUE_DECLARE);
    put_number(&request, 0, 2);
    put_text(&request, name);
    put_number(&request, (uint64_t)flags, 1);
    put_number(&request, lazy ? sizeof mode - 1 : 0, 4);
    if (lazy)
        memcpy(buffer_extend(&request, sizeof mode - 1), mode, sizeof mode - 1);
    call(fd, &request, start, QUEUE_DECLARE_OK);
    free(request.bytes);
}

static void call_delete_queue(int fd, const char *name)
{
    struct buffer request = {0};
    size_t start = method_open(&request, 1, QUEUE_DELETE);
    put_number(&request, 0, 2);
    put_text(&request, name);
    put_number(&request, 0, 1);
    call(fd, &request, start, QUEUE_DELETE_OK);
    free(request.bytes);
}

/* `method` is CONFIRM_SELECT or TX_SELECT. */
static void call_select(int fd, uint32_t method)
{
    struct buffer request = {0};
    size_t start = method_open(&request, 1, method);
    if (method == CONFIRM_SELECT)
        put_number(&request, 0, 1);
    call(fd, &request, start, method + 1);
    free(request.bytes);
}

static void call_qos(int fd, int prefetch)
{
    struct buffer request = {0};
    size_t start = method_open(&request, 1, BASIC_QOS);
    put_number(&request, 0, 4);
    put_number(&request, (uint64_t)prefetch, 2);
    put_number(&request, 0, 1);
    call(fd, &request, start, BASIC_QOS_OK);
    free(request.bytes);
}

static void call_consume(int fd, const char *queue, bool auto_ack)
{
    struct buffer request = {0};
    size_t start = method_open(&request, 1, BASIC_CONSUME);
    put_number(&request, 0, 2);
    put_text(&request, queue);
    put_text(&request, "");
    put_number(&request, auto_ack ? 2 : 0, 1);
    put_number(&request, 0, 4);
    call(fd, &request, start, BASIC_CONSUME_OK);
    free(request.bytes);
}

static void call_close(int fd)
{
    struct buffer request = {0};
    size_t start = method_open(&request, 0, CONNECTION_CLOSE);
    put_number(&request, 200, 2);
    put_text(&request, "done");
    put_number(&request, 0, 4);
    call(fd, &request, start, CONNECTION_CLOSE_OK);
    close(fd);
    free(request.bytes);
}

#endif
