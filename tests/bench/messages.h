/* Runs of ready messages: frames made once, of which only stamps change when they are sent.
 *
 * `--addresses FILE` has a line "exchange, tab, routing key" for each address; without it messages
 * go to the queues by name. `--properties FILE` has encoded properties (flags and values), each
 * after its length in two bytes; without it only the delivery mode is set. Messages take both in
 * turn. Sixteen '#' in properties are replaced by a number, in hexadecimal digits, that no other
 * message of the process has. Every `--transaction` messages tx.commit follows.
 */
#ifndef LEVERET_BENCH_MESSAGES_H
#define LEVERET_BENCH_MESSAGES_H

#include "run.h"

enum { RUN_BYTES = 1 << 18, RUN_BURSTS = 4, MARK_SIZE = 16, MARKS_MAX = 4 };

struct message {
    size_t start, time;
    size_t marks[MARKS_MAX];
    int mark_count;
};

/* Message i is in `bytes` from `messages[i].start` to `messages[i + 1].start`. */
struct run {
    struct buffer bytes;
    struct message *messages;
    int length;
};

struct address {
    const char *exchange, *key;
};

static struct address *addresses;
static int address_count;
static struct buffer properties_file;
static size_t properties_next;

static struct buffer read_file(const char *path)
{
    struct buffer content = {0};
    FILE *file = fopen(path, "rb");
    if (!file)
        fail("cannot read %s: %s", path, strerror(errno));
    for (size_t count = 1; count;) {
        uint8_t *into = buffer_extend(&content, 1 << 16);
        count = fread(into, 1, 1 << 16, file);
        content.length -= (1 << 16) - count;
    }
    fclose(file);
    return content;
}

static void add_address(const char *exchange, const char *key)
{
    addresses = realloc(addresses, (size_t)(address_count + 1) * sizeof *addresses);
    addresses[address_count++] = (struct address){exchange, key};
}

/* Reads both files. */
static void load_forms(void)
{
    if (options.properties)
        properties_file = read_file(options.properties);
    if (!options.addresses) {
        for (int i = 0; i < options.queues; i++)
            add_address("", strdup(queue_name(i)));
        return;
    }
    struct buffer text = read_file(options.addresses);
    *buffer_extend(&text, 1) = 0;
    for (char *line = strtok((char *)text.bytes, "\n"); line; line = strtok(NULL, "\n")) {
        char *tab = strchr(line, '\t');
        if (!tab)
            fail("%s: a line without a tab: %s", options.addresses, line);
        *tab = 0;
        add_address(line, tab + 1);
    }
    if (!address_count)
        fail("%s: no address", options.addresses);
}

/* A publisher keeps to one queue if each has a publisher or a consumer, unless `--in-turn`. */
static struct address address_of(int publisher, int message)
{
    bool round = options.addresses || options.in_turn
                 || (options.queues > options.publishers && options.queues > options.consumers);
    int number = publisher + (round ? message * options.publishers : 0);
    return addresses[number % address_count];
}

/* Neighbours in a run differ in size if `--vary` is set; the factor spreads the sizes. */
static int body_size(int index)
{
    return options.size + (int)((int64_t)index * 37 % (options.vary + 1));
}

static void put_next_properties(struct buffer *into)
{
    const struct buffer *forms = &properties_file;
    if (!forms->length) {
        put_number(into, 1 << 12, 2); /* only the delivery mode is set */
        put_number(into, options.durable ? 2 : 1, 1);
        return;
    }
    if (properties_next + 2 > forms->length)
        properties_next = 0;
    size_t size = load_u16(forms->bytes + properties_next);
    if (properties_next + 2 + size > forms->length)
        fail("%s is cut off", options.properties);
    memcpy(buffer_extend(into, size), forms->bytes + properties_next + 2, size);
    properties_next += 2 + size;
}

static void find_marks(const struct run *self, struct message *message, size_t from)
{
    static const char mark[] = "################";
    const uint8_t *bytes = self->bytes.bytes;
    size_t length = self->bytes.length;
    for (const uint8_t *at; (at = memmem(bytes + from, length - from, mark, MARK_SIZE));) {
        if (message->mark_count == MARKS_MAX)
            fail("%s: more than %d marks in a message", options.properties, MARKS_MAX);
        message->marks[message->mark_count++] = (size_t)(at - bytes);
        from = (size_t)(at - bytes) + MARK_SIZE;
    }
}

static void put_body(struct buffer *into, int channel, int size)
{
    for (int left = size; left > 0;) {
        int part = left < FRAME_MAX - FRAME_OVERHEAD ? left : FRAME_MAX - FRAME_OVERHEAD;
        size_t start = frame_open(into, FRAME_BODY, channel);
        memset(buffer_extend(into, (size_t)part), 'x', (size_t)part);
        frame_close(into, start);
        left -= part;
    }
}

static void put_message(struct run *self, int index, struct address to)
{
    struct buffer *into = &self->bytes;
    struct message *message = self->messages + index;
    int channel = 1 + index % options.channels;
    size_t start = method_open(into, channel, BASIC_PUBLISH);
    put_number(into, 0, 2);
    put_text(into, to.exchange);
    put_text(into, to.key);
    put_number(into, options.mandatory, 1);
    frame_close(into, start);
    start = frame_open(into, FRAME_HEADER, channel);
    put_number(into, (uint64_t)60 << 16, 4);
    put_number(into, (uint64_t)body_size(index), 8);
    put_next_properties(into);
    frame_close(into, start);
    find_marks(self, message, start);
    message->time = into->length + FRAME_HEAD_SIZE;
    put_body(into, channel, body_size(index));
    if (options.transaction && (index + 1) % options.transaction == 0)
        frame_close(into, method_open(into, channel, TX_COMMIT));
    self->messages[index + 1].start = into->length;
}

/* A few bursts long where that fits, or a burst would often be cut by the end of the run; and as
 * often each address and each transaction as the others. */
static int choose_run_length(void)
{
    int fitting = RUN_BYTES / (options.size + options.vary + 64);
    int wanted = RUN_BURSTS * options.burst;
    int length = fitting < 1 ? 1 : fitting < wanted ? fitting : wanted;
    int unit = options.transaction ? options.transaction : address_count;
    return length < unit ? unit : length - length % unit;
}

static void prepare_run(struct run *self, int publisher)
{
    self->length = choose_run_length();
    self->messages = calloc((size_t)self->length + 1, sizeof *self->messages);
    for (int i = 0; i < self->length; i++)
        put_message(self, i, address_of(publisher, i));
}

static void write_number(uint8_t *at, uint64_t number)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < MARK_SIZE; i++)
        at[i] = (uint8_t)digits[number >> (60 - 4 * i) & 15];
}

/* Gives the messages from `first` to `end` their time and their numbers. */
static void stamp_messages(struct run *self, int first, int end, uint64_t now)
{
    static uint64_t numbered;
    bool timed = options.size >= (int)sizeof now;
    for (int i = first; i < end; i++) {
        const struct message *message = self->messages + i;
        if (timed)
            memcpy(self->bytes.bytes + message->time, &now, sizeof now);
        if (!message->mark_count)
            continue;
        uint64_t number = ++numbered * 0x9E3779B97F4A7C15u; /* odd, so no two are equal */
        for (int mark = 0; mark < message->mark_count; mark++)
            write_number(self->bytes.bytes + message->marks[mark], number);
    }
}

#endif
