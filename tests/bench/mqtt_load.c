/* MQTT 3.1.1 clients that publish and subscribe at full speed, in one thread.

   mqtt_load PORT PUBLISHERS SUBSCRIBERS MESSAGES BYTES QOS WINDOW

   Each publisher publishes MESSAGES of BYTES to one topic of its own below "load/", and each
   subscriber gets all of them. WINDOW: the unacknowledged messages of a publisher with QoS 1.
   Prints a JSON object: the seconds from the first publish to the last delivery or PUBACK, and the
   messages that were published, acknowledged and consumed. It ends when all have been consumed, or 3
   seconds after the last packet has come. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 256 * 1024, BATCH = 64 };

struct client {
    int socket, is_publisher, number;
    long published, acknowledged, next_id;
    unsigned char *in, *out;
    size_t in_size, out_at, out_size;
};

static int qos, body_bytes;
static long messages, window, delivered, subscribers, publishers;
static struct client *clients;
static int epoll;
static double last_at, first_at;
static char body[1 << 20];

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static size_t put_length(unsigned char *to, size_t size) {
    size_t count = 0;
    do {
        unsigned char low = size & 127;
        size >>= 7;
        to[count++] = low | (size ? 128 : 0);
    } while (size);
    return count;
}

static size_t put_text(unsigned char *to, const char *text) {
    size_t size = strlen(text);
    to[0] = size >> 8, to[1] = size;
    memcpy(to + 2, text, size);
    return size + 2;
}

static void watch(struct client *one, int writes) {
    struct epoll_event event = {.events = EPOLLIN | (writes ? EPOLLOUT : 0), .data.ptr = one};
    epoll_ctl(epoll, EPOLL_CTL_MOD, one->socket, &event);
}

static void send_out(struct client *one) {
    while (one->out_at < one->out_size) {
        ssize_t sent = write(one->socket, one->out + one->out_at, one->out_size - one->out_at);
        if (sent < 0) {
            if (errno == EAGAIN) {
                watch(one, 1);
                return;
            }
            fail("write");
        }
        one->out_at += sent;
    }
    one->out_at = one->out_size = 0;
}

static void put_publishes(struct client *one) {
    char topic[32];
    snprintf(topic, sizeof topic, "load/%d", one->number);
    for (int count = 0; count < BATCH && one->published < messages; count++) {
        if (qos && one->published - one->acknowledged >= window) break;
        if (one->out_size + body_bytes + 64 > BUFFER) break;
        unsigned char *to = one->out + one->out_size;
        size_t size = 2 + strlen(topic) + (qos ? 2 : 0) + body_bytes, at = 0;
        to[at++] = 0x30 | qos << 1;
        at += put_length(to + at, size);
        at += put_text(to + at, topic);
        if (qos) {
            long id = one->next_id++ % 65535 + 1;
            to[at++] = id >> 8, to[at++] = id;
        }
        memcpy(to + at, body, body_bytes);
        one->out_size += at + body_bytes;
        one->published++;
    }
}

static void go_on(struct client *one) {
    if (!one->is_publisher) {
        send_out(one);
        if (!one->out_size) watch(one, 0);
        return;
    }
    for (int turn = 0; turn < 4; turn++) {
        send_out(one);
        if (one->out_size) return;
        put_publishes(one);
        if (!one->out_size) {
            watch(one, 0);
            return;
        }
    }
    watch(one, 1);
}

static void handle(struct client *one, unsigned char first, unsigned char *packet, size_t size) {
    switch (first >> 4) {
    case 3:
        delivered++;
        last_at = now();
        if (first & 6) {
            size_t topic = packet[0] << 8 | packet[1];
            unsigned char *to = one->out + one->out_size;
            to[0] = 0x40, to[1] = 2, to[2] = packet[topic + 2], to[3] = packet[topic + 3];
            one->out_size += 4;
        }
        break;
    case 4:
        one->acknowledged++;
        last_at = now();
    }
    (void)size;
}

static void receive(struct client *one) {
    ssize_t got = read(one->socket, one->in + one->in_size, BUFFER - one->in_size);
    if (got <= 0) {
        if (got < 0 && errno == EAGAIN) return;
        fail("the broker closed a connection");
    }
    one->in_size += got;
    size_t at = 0;
    while (one->in_size - at >= 2) {
        size_t size = 0, position = at + 1;
        int shift = 0, is_whole = 0;
        while (position < one->in_size) {
            unsigned char octet = one->in[position++];
            size |= (size_t)(octet & 127) << shift;
            shift += 7;
            if (octet < 128) {
                is_whole = 1;
                break;
            }
        }
        if (!is_whole || one->in_size - position < size) break;
        if (one->out_size + 64 > BUFFER) break;
        handle(one, one->in[at], one->in + position, size);
        at = position + size;
    }
    memmove(one->in, one->in + at, one->in_size - at);
    one->in_size -= at;
    go_on(one);
}

static void await_packet(struct client *one, int kind) {
    unsigned char start[2], rest[128];
    if (recv(one->socket, start, 2, MSG_WAITALL) != 2) fail("recv");
    if (recv(one->socket, rest, start[1], MSG_WAITALL) != start[1]) fail("recv");
    if (start[0] >> 4 != kind || (kind == 2 && rest[1])) {
        fprintf(stderr, "unexpected packet %d code %d\n", start[0] >> 4, rest[1]);
        exit(1);
    }
}

static void open_client(struct client *one, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int yes = 1;
    unsigned char packet[256];
    char name[32];
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    one->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(one->socket, (struct sockaddr *)&address, sizeof address)) fail("connect");
    setsockopt(one->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    one->in = malloc(BUFFER), one->out = malloc(BUFFER);
    snprintf(name, sizeof name, "load-%s-%d", one->is_publisher ? "p" : "s", one->number);
    size_t at = 2;
    at += put_text(packet + at, "MQTT");
    packet[at++] = 4, packet[at++] = 0xC2, packet[at++] = 0, packet[at++] = 0;
    at += put_text(packet + at, name);
    at += put_text(packet + at, "guest");
    at += put_text(packet + at, "guest");
    packet[0] = 0x10, packet[1] = at - 2;
    if (write(one->socket, packet, at) != (ssize_t)at) fail("write");
    await_packet(one, 2);
    if (!one->is_publisher) {
        at = 2, packet[at++] = 0, packet[at++] = 1;
        at += put_text(packet + at, "load/#");
        packet[at++] = qos;
        packet[0] = 0x82, packet[1] = at - 2;
        if (write(one->socket, packet, at) != (ssize_t)at) fail("write");
        await_packet(one, 9);
    }
    fcntl(one->socket, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    epoll_ctl(epoll, EPOLL_CTL_ADD, one->socket, &event);
}

int main(int count, char **given) {
    if (count != 8) {
        fprintf(stderr, "mqtt_load PORT PUBLISHERS SUBSCRIBERS MESSAGES BYTES QOS WINDOW\n");
        return 2;
    }
    int port = atoi(given[1]);
    publishers = atol(given[2]), subscribers = atol(given[3]), messages = atol(given[4]);
    body_bytes = atoi(given[5]), qos = atoi(given[6]), window = atol(given[7]);
    memset(body, 'x', sizeof body);
    epoll = epoll_create1(0);
    clients = calloc(publishers + subscribers, sizeof *clients);
    for (long place = 0; place < publishers + subscribers; place++) {
        struct client *one = &clients[place];
        one->is_publisher = place >= subscribers;
        one->number = place;
        open_client(one, port);
    }
    first_at = last_at = now();
    for (long place = subscribers; place < publishers + subscribers; place++) watch(&clients[place], 1);
    long wanted = publishers * messages * subscribers;
    for (;;) {
        struct epoll_event events[256];
        int ready = epoll_wait(epoll, events, 256, 200);
        for (int place = 0; place < ready; place++) {
            struct client *one = events[place].data.ptr;
            if (events[place].events & EPOLLIN) receive(one);
            if (events[place].events & EPOLLOUT) go_on(one);
        }
        long published = 0, acknowledged = 0;
        if (ready == 0 || delivered >= wanted) {
            for (long place = subscribers; place < publishers + subscribers; place++) {
                published += clients[place].published;
                acknowledged += clients[place].acknowledged;
            }
            int is_done = published == publishers * messages && (!qos || acknowledged == published);
            if ((is_done && delivered >= wanted) || now() - last_at > 3) {
                printf("{\"seconds\": %.3f, \"published\": %ld, \"acknowledged\": %ld, "
                       "\"consumed\": %ld}\n",
                       last_at - first_at, published, acknowledged, delivered);
                return 0;
            }
        }
    }
}
