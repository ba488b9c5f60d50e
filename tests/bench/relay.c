/* The bound: a program in a broker's place that only moves bytes from one socket to another.
 *
 * It answers a client's methods until the first message, like a broker that has every queue. From
 * then on all that it reads from a publisher is written to a consumer of its own, unchanged, with
 * one read and one write; if the consumer's socket is full, the publisher is not read until the
 * rest is written. What a consumer sends is read and dropped. With publisher confirms each read is
 * followed by one ack for all messages that ended in it, for which it steps from frame to frame.
 * No broker can do with fewer system calls of these sizes, so its CPU is the least that a message
 * costs on a machine. It serves loads in which each publisher has a queue with one consumer.
 * `relay PORT`; SIGTERM ends it.
 */
#define _GNU_SOURCE
#include "amqp.h"

#include <fcntl.h>
#include <sys/epoll.h>

enum { READ_SIZE = 256000, CONNECTIONS_MAX = 1024, EVENTS = 64 };
enum { GREETING, METHODS, PUBLISHES, CONSUMES };

struct client {
    int fd, phase;
    bool confirms;
    struct client *peer;            /* a publisher's consumer, and the reverse */
    uint8_t queue[256];             /* of a consumer, after its length */
    uint8_t head[FRAME_HEAD_SIZE];  /* of the frame that is stepped over */
    size_t head_size, frame_left;   /* frame_left: bytes after its head */
    uint64_t ended;                 /* messages that ended */
    uint8_t *pending;               /* what the consumer's socket did not take */
    size_t pending_size, pending_at;
    uint8_t *request;
    size_t request_size;
};

static struct client *consumers[CONNECTIONS_MAX];
static int consumer_count, poller;
static uint8_t input[READ_SIZE];

static void watch(struct client *client, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = client};
    if (epoll_ctl(poller, operation, client->fd, &event))
        fail("cannot watch a socket: %s", strerror(errno));
}

/* An answer whose arguments are `count` zero bytes: an empty text, or the number 0. */
static void answer(struct client *client, int channel, uint32_t method, size_t count)
{
    struct buffer frame = {0};
    size_t start = method_open(&frame, channel, method);
    memset(buffer_extend(&frame, count), 0, count);
    frame_close(&frame, start);
    send_buffer(client->fd, &frame);
    free(frame.bytes);
}

static void answer_tune(struct client *client)
{
    struct buffer frame = {0};
    size_t start = method_open(&frame, 0, CONNECTION_TUNE);
    put_number(&frame, 2047, 2);
    put_number(&frame, FRAME_MAX, 4);
    put_number(&frame, 0, 2);
    frame_close(&frame, start);
    send_buffer(client->fd, &frame);
    free(frame.bytes);
}

/* `queue` is its name as in a frame: after its length. */
static void start_consuming(struct client *client, const uint8_t *queue)
{
    client->phase = CONSUMES;
    memcpy(client->queue, queue, (size_t)queue[0] + 1);
    consumers[consumer_count++] = client;
}

static void answer_method(struct client *client, int channel, uint32_t method,
                          const uint8_t *arguments)
{
    switch (method) {
    case CONNECTION_START_OK: answer_tune(client); break;
    case CONNECTION_OPEN: answer(client, 0, CONNECTION_OPEN_OK, 1); break;
    case CONNECTION_CLOSE: answer(client, 0, CONNECTION_CLOSE_OK, 0); break;
    case CHANNEL_OPEN: answer(client, channel, CHANNEL_OPEN_OK, 4); break;
    case QUEUE_DECLARE: answer(client, channel, QUEUE_DECLARE_OK, 9); break;
    case QUEUE_DELETE: answer(client, channel, QUEUE_DELETE_OK, 4); break;
    case BASIC_QOS: answer(client, channel, BASIC_QOS_OK, 0); break;
    case BASIC_CONSUME:
        start_consuming(client, arguments + 2);
        answer(client, channel, BASIC_CONSUME_OK, 1);
        break;
    case CONFIRM_SELECT:
        client->confirms = true;
        answer(client, channel, CONFIRM_SELECT_OK, 0);
        break;
    }
}

/* Takes a step of the frame at `at`, with `count` bytes there; returns how far it went. */
static size_t step(struct client *client, const uint8_t *at, size_t count)
{
    if (client->head_size < FRAME_HEAD_SIZE) {
        size_t part = FRAME_HEAD_SIZE - client->head_size;
        part = part < count ? part : count;
        memcpy(client->head + client->head_size, at, part);
        client->head_size += part;
        if (client->head_size == FRAME_HEAD_SIZE)
            client->frame_left = load_u32(client->head + 3) + 1;
        return part;
    }
    size_t part = client->frame_left < count ? client->frame_left : count;
    client->frame_left -= part;
    if (!client->frame_left) {
        client->head_size = 0;
        client->ended += client->head[0] == FRAME_BODY; /* of one frame each */
    }
    return part;
}

static void confirm(struct client *publisher, const uint8_t *from, size_t size)
{
    uint64_t before = publisher->ended;
    uint8_t ack[21] = {FRAME_METHOD, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80, [19] = 1, [20] = FRAME_END};
    for (size_t at = 0; at < size;)
        at += step(publisher, from + at, size - at);
    if (publisher->ended == before)
        return;
    store_u64(ack + 11, publisher->ended);
    if (send(publisher->fd, ack, sizeof ack, MSG_NOSIGNAL) < 0)
        fail("cannot confirm: %s", strerror(errno));
}

/* Writes what it can; the publisher is not read until the rest is written. */
static void forward(struct client *publisher, const uint8_t *from, size_t size)
{
    struct client *consumer = publisher->peer;
    ssize_t sent = consumer ? send(consumer->fd, from, size, MSG_NOSIGNAL) : (ssize_t)size;
    sent = sent < 0 ? 0 : sent;
    if ((size_t)sent == size)
        return;
    publisher->pending_size = size - (size_t)sent;
    publisher->pending_at = 0;
    memcpy(publisher->pending, from + sent, publisher->pending_size);
    watch(publisher, EPOLL_CTL_MOD, 0);
    watch(consumer, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
}

static void write_pending(struct client *consumer)
{
    struct client *publisher = consumer->peer;
    if (publisher) {
        uint8_t *from = publisher->pending + publisher->pending_at;
        ssize_t sent = send(consumer->fd, from, publisher->pending_size, MSG_NOSIGNAL);
        sent = sent < 0 ? 0 : sent;
        publisher->pending_at += (size_t)sent;
        publisher->pending_size -= (size_t)sent;
        if (publisher->pending_size)
            return;
        watch(publisher, EPOLL_CTL_MOD, EPOLLIN);
    }
    watch(consumer, EPOLL_CTL_MOD, EPOLLIN);
}

/* `key` is the first message's routing key, after its length. */
static void start_publishing(struct client *client, const uint8_t *key)
{
    for (int i = 0; i < consumer_count && !client->peer; i++)
        if (!consumers[i]->peer && !memcmp(consumers[i]->queue, key, (size_t)key[0] + 1))
            client->peer = consumers[i];
    if (!client->peer)
        fail("a publisher without a consumer of its own");
    client->peer->peer = client;
    client->phase = PUBLISHES;
    client->pending = malloc(2 * READ_SIZE);
}

static void answer_greeting(struct client *client)
{
    static const uint8_t form[] = "\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05" "en_US";
    struct buffer frame = {0};
    size_t start = method_open(&frame, 0, CONNECTION_START);
    memcpy(buffer_extend(&frame, sizeof form - 1), form, sizeof form - 1);
    frame_close(&frame, start);
    send_buffer(client->fd, &frame);
    free(frame.bytes);
    client->phase = METHODS;
}

/* Takes the methods of `request` that are complete; stops where messages begin. */
static size_t take_methods(struct client *client)
{
    size_t at = 0;
    if (client->phase == GREETING && client->request_size >= 8) {
        answer_greeting(client);
        at = 8;
    }
    while (client->phase != GREETING && client->request_size - at >= FRAME_OVERHEAD + 4) {
        const uint8_t *frame = client->request + at;
        size_t size = load_u32(frame + 3) + FRAME_OVERHEAD;
        if (client->request_size - at < size)
            break;
        if (load_u32(frame + 7) == BASIC_PUBLISH) {
            const uint8_t *exchange = frame + 13;
            start_publishing(client, exchange + 1 + exchange[0]);
            break;
        }
        answer_method(client, load_u16(frame + 1), load_u32(frame + 7), frame + 11);
        at += size;
    }
    return at;
}

static void relay(struct client *publisher, const uint8_t *from, size_t size)
{
    forward(publisher, from, size);
    if (publisher->confirms)
        confirm(publisher, from, size);
}

static void end_client(struct client *client)
{
    for (int i = 0; i < consumer_count; i++)
        if (consumers[i] == client)
            consumers[i] = consumers[--consumer_count];
    if (client->peer)
        client->peer->peer = NULL;
    close(client->fd);
    free(client->pending);
    free(client->request);
    free(client);
}

/* Before its first message a client sends methods; they are kept until they are complete. */
static void take_request(struct client *client, size_t size)
{
    if (!client->request)
        client->request = malloc(2 * READ_SIZE);
    memcpy(client->request + client->request_size, input, size);
    client->request_size += size;
    size_t taken = take_methods(client);
    client->request_size -= taken;
    memmove(client->request, client->request + taken, client->request_size);
    if (client->phase == PUBLISHES)
        relay(client, client->request, client->request_size);
}

static void read_client(struct client *client)
{
    ssize_t size = recv(client->fd, input, READ_SIZE, 0);
    if (size < 0 && errno == EAGAIN)
        return;
    if (size <= 0)
        end_client(client);
    else if (client->phase == PUBLISHES)
        relay(client, input, (size_t)size);
    else if (client->phase != CONSUMES)
        take_request(client, (size_t)size);
}

static void accept_client(int listener)
{
    int on = 1;
    struct client *client = calloc(1, sizeof *client);
    client->fd = accept(listener, NULL, NULL);
    if (client->fd < 0 || fcntl(client->fd, F_SETFL, O_NONBLOCK))
        fail("cannot accept: %s", strerror(errno));
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch(client, EPOLL_CTL_ADD, EPOLLIN);
}

static int listen_on(int port)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 128))
        fail("cannot listen on port %d: %s", port, strerror(errno));
    return listener;
}

int main(int count, char **arguments)
{
    if (count != 2)
        fail("usage: relay PORT");
    struct client listening = {.fd = listen_on(atoi(arguments[1]))};
    poller = epoll_create1(EPOLL_CLOEXEC);
    watch(&listening, EPOLL_CTL_ADD, EPOLLIN);
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            struct client *client = events[i].data.ptr;
            if (client == &listening)
                accept_client(client->fd);
            else if (events[i].events & EPOLLOUT)
                write_pending(client);
            else
                read_client(client);
        }
    }
}
