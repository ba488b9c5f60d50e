/* STOMP 1.2 clients that send and subscribe at full speed, in one thread.

   stomp_load PORT PUBLISHERS SUBSCRIBERS MESSAGES BYTES DESTINATION IS_SAFE WINDOW

   Each publisher sends MESSAGES of BYTES to the destination; each subscriber of it gets all of them
   if it is a topic, and the only one if it is a queue. IS_SAFE: 1 if messages are persistent and have
   receipts, of which a publisher lacks WINDOW at most, and subscribers acknowledge each message.
   Prints a JSON object: the seconds from the first message to the last delivery or receipt, and the
   messages that were published, acknowledged and consumed. It ends when all have been consumed, or 3
   seconds after the last frame has come. */

#include "clients.h"

enum { HEAD_MAX = 1024, ACK_MAX = 512 };

static int is_safe, body_bytes;
static long window;
static const char *destination;
static char body[1 << 20];

static void put_messages(struct client *one) {
    for (int count = 0; count < BATCH && one->published < messages; count++) {
        if (is_safe && one->published - one->acknowledged >= window) break;
        if (one->out_size + body_bytes + HEAD_MAX > BUFFER) break;
        char *to = (char *)one->out + one->out_size;
        int at = sprintf(to, "SEND\ndestination:%s\ncontent-length:%d\n", destination, body_bytes);
        if (is_safe) at += sprintf(to + at, "persistent:true\nreceipt:%ld\n", one->next_id++);
        to[at++] = '\n';
        memcpy(to + at, body, body_bytes);
        at += body_bytes;
        to[at++] = 0;
        one->out_size += at;
        one->published++;
    }
}

/* The value of a header; 0 if the head has none of this name. name: with a line feed before it. */
static const char *header(const char *head, size_t size, const char *name, size_t *value_size) {
    const char *found = memmem(head, size, name, strlen(name));
    if (!found) return 0;
    found += strlen(name);
    *value_size = (const char *)memchr(found, '\n', head + size - found) - found;
    return found;
}

static void handle(struct client *one, const char *head, size_t size) {
    size_t value_size;
    last_at = now();
    if (!memcmp(head, "MESSAGE\n", 8)) {
        delivered++;
        const char *ack = header(head, size, "\nack:", &value_size);
        if (!ack) return;
        char *to = (char *)one->out + one->out_size;
        one->out_size += sprintf(to, "ACK\nid:%.*s\n\n", (int)value_size, ack) + 1;
    } else if (!memcmp(head, "RECEIPT\n", 8)) {
        one->acknowledged++;
    } else {
        fprintf(stderr, "unexpected frame: %.*s\n", (int)size, head);
        exit(1);
    }
}

/* The bytes of the first frame with the line feeds before it; 0 if it is not complete. */
static size_t frame_bytes(const char *data, size_t size, size_t *begin, size_t *head_size) {
    size_t at = 0, value_size;
    while (at < size && data[at] == '\n') at++;
    const char *end = memmem(data + at, size - at, "\n\n", 2);
    if (!end) return 0;
    *begin = at, *head_size = end + 1 - (data + at);
    const char *length = header(data + at, *head_size, "\ncontent-length:", &value_size);
    at += *head_size + 1;
    if (length) {
        at += atol(length);
    } else {
        const char *nul = memchr(data + at, 0, size - at);
        if (!nul) return 0;
        at = nul - data;
    }
    return at < size ? at + 1 : 0;
}

static void take_input(struct client *one) {
    size_t at = 0, size, begin, head_size;
    const char *data = (const char *)one->in;
    while ((size = frame_bytes(data + at, one->in_size - at, &begin, &head_size))) {
        if (one->out_size + ACK_MAX > BUFFER) break;
        handle(one, data + at + begin, head_size);
        at += size;
    }
    memmove(one->in, one->in + at, one->in_size - at);
    one->in_size -= at;
}

/* Send a frame without a body, and wait for its answer. */
static void call(struct client *one, const char *frame, const char *answer) {
    char got[HEAD_MAX];
    size_t size = 0;
    if (write(one->socket, frame, strlen(frame) + 1) < 0) fail("write");
    do {
        if (size == sizeof got || recv(one->socket, got + size, 1, 0) != 1) fail("recv");
        // A line feed may follow each frame.
        if (size || got[0] != '\n') size++;
    } while (!size || got[size - 1]);
    if (strncmp(got, answer, strlen(answer))) {
        fprintf(stderr, "unexpected frame: %s\n", got);
        exit(1);
    }
}

static void open_client(struct client *one, int port) {
    char frame[HEAD_MAX];
    connect_client(one, port);
    call(one, "CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n", "CONNECTED");
    if (!one->is_publisher) {
        const char *ack = is_safe ? "ack:client-individual\nprefetch-count:200\n" : "";
        snprintf(frame, sizeof frame, "SUBSCRIBE\nid:0\nreceipt:ready\ndestination:%s\n%s\n",
                 destination, ack);
        call(one, frame, "RECEIPT");
    }
    begin_client(one);
}

int main(int count, char **given) {
    if (count != 9) {
        fprintf(stderr, "stomp_load PORT PUBLISHERS SUBSCRIBERS MESSAGES BYTES DESTINATION IS_SAFE "
                        "WINDOW\n");
        return 2;
    }
    int port = atoi(given[1]);
    publishers = atol(given[2]), subscribers = atol(given[3]), messages = atol(given[4]);
    body_bytes = atoi(given[5]), destination = given[6];
    is_safe = atoi(given[7]), window = atol(given[8]);
    memset(body, 'x', sizeof body);
    open_clients(port);
    run_clients(is_safe);
}
