/* MQTT 3.1.1 clients that publish and subscribe at full speed, in one thread.

   mqtt_load PORT PUBLISHERS SUBSCRIBERS MESSAGES BYTES QOS WINDOW

   Each publisher publishes MESSAGES of BYTES to one topic of its own below "load/", and each
   subscriber gets all of them. WINDOW: the unacknowledged messages of a publisher with QoS 1.
   Prints a JSON object: the seconds from the first publish to the last delivery or PUBACK, and the
   messages that were published, acknowledged and consumed. It ends when all have been consumed, or 3
   seconds after the last packet has come. */

#include "clients.h"

static int qos, body_bytes;
static long window;
static char body[1 << 20];

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

static void put_messages(struct client *one) {
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

static void take_input(struct client *one) {
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
    unsigned char packet[256];
    char name[32];
    connect_client(one, port);
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
    begin_client(one);
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
    open_clients(port);
    run_clients(qos);
}
