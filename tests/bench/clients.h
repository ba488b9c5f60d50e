/* Clients of one broker in one thread: their sockets, buffers and counts, and the end of a run
   (mqtt_load.c, stomp_load.c). */

#ifndef CLIENTS_H
#define CLIENTS_H

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

enum { BUFFER = 256 * 1024, BATCH = 64, SILENT_SECONDS = 3 };

struct client {
    int socket, is_publisher, number;
    long published, acknowledged, next_id;
    unsigned char *in, *out;
    size_t in_size, out_at, out_size;
};

static long publishers, subscribers, messages, delivered;
static struct client *clients;
static int epoll;
static double first_at, last_at;

/* What the protocol adds: it logs a client in and subscribes it, takes the bytes that have come (and
   moves the rest to the front), and puts further messages of a publisher into its buffer. */
static void open_client(struct client *one, int port);
static void take_input(struct client *one);
static void put_messages(struct client *one);

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void connect_client(struct client *one, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int yes = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    one->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(one->socket, (struct sockaddr *)&address, sizeof address)) fail("connect");
    setsockopt(one->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    one->in = malloc(BUFFER), one->out = malloc(BUFFER);
}

/* The client is ready: from now on it does not block. */
static void begin_client(struct client *one) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    fcntl(one->socket, F_SETFL, O_NONBLOCK);
    epoll_ctl(epoll, EPOLL_CTL_ADD, one->socket, &event);
}

static void open_clients(int port) {
    epoll = epoll_create1(0);
    clients = calloc(publishers + subscribers, sizeof *clients);
    for (long place = 0; place < publishers + subscribers; place++) {
        struct client *one = &clients[place];
        one->is_publisher = place >= subscribers;
        one->number = place;
        open_client(one, port);
    }
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

static void go_on(struct client *one) {
    if (!one->is_publisher) {
        send_out(one);
        if (!one->out_size) watch(one, 0);
        return;
    }
    for (int turn = 0; turn < 4; turn++) {
        send_out(one);
        if (one->out_size) return;
        put_messages(one);
        if (!one->out_size) {
            watch(one, 0);
            return;
        }
    }
    watch(one, 1);
}

static void receive(struct client *one) {
    ssize_t got = read(one->socket, one->in + one->in_size, BUFFER - one->in_size);
    if (got <= 0) {
        if (got < 0 && errno == EAGAIN) return;
        fail("the broker closed a connection");
    }
    one->in_size += got;
    take_input(one);
    go_on(one);
}

/* Publish and receive until all messages have been consumed and answered, or nothing comes; print
   the result. is_answered: the broker acknowledges what publishers send. */
static void run_clients(int is_answered) {
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
        if (ready && delivered < wanted) continue;
        long published = 0, acknowledged = 0;
        for (long place = subscribers; place < publishers + subscribers; place++) {
            published += clients[place].published;
            acknowledged += clients[place].acknowledged;
        }
        int is_done = published == publishers * messages && (!is_answered || acknowledged == published);
        if ((is_done && delivered >= wanted) || now() - last_at > SILENT_SECONDS) {
            printf("{\"seconds\": %.3f, \"published\": %ld, \"acknowledged\": %ld, "
                   "\"consumed\": %ld}\n",
                   last_at - first_at, published, acknowledged, delivered);
            return;
        }
    }
}

#endif
