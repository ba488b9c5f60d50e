/* The command line: every option is a row of `known`. */
#ifndef LEVERET_BENCH_OPTIONS_H
#define LEVERET_BENCH_OPTIONS_H

#include "run.h"

#include <getopt.h>

enum kind { A_NUMBER, A_FRACTION, A_TEXT, A_SWITCH };

static const struct {
    const char *name;
    enum kind kind;
    void *target;
    const char *help;
} known[] = {
    {"host", A_TEXT, &options.peer.host, "the broker's IPv4 address"},
    {"port", A_NUMBER, &options.peer.port, "its AMQP port"},
    {"consumer-port", A_NUMBER, &options.consumer_port, "that of consumers; 0: the same port"},
    {"user", A_TEXT, &options.peer.user, "who logs in"},
    {"password", A_TEXT, &options.peer.password, "and with what"},
    {"vhost", A_TEXT, &options.peer.vhost, "the virtual host"},
    {"publishers", A_NUMBER, &options.publishers, "connections that publish"},
    {"consumers", A_NUMBER, &options.consumers, "connections that consume"},
    {"queues", A_NUMBER, &options.queues, "queues they are spread over"},
    {"size", A_NUMBER, &options.size, "bytes of a body"},
    {"vary", A_NUMBER, &options.vary, "bytes by which bodies are larger at most; sizes take turns"},
    {"properties", A_TEXT, &options.properties, "a file of encoded properties: see messages.h"},
    {"addresses", A_TEXT, &options.addresses, "a file of exchanges and keys: see messages.h"},
    {"in-turn", A_SWITCH, &options.in_turn, "each message to the next queue"},
    {"channels", A_NUMBER, &options.channels, "channels of a publisher, which take turns"},
    {"mandatory", A_SWITCH, &options.mandatory, "messages that no queue gets come back"},
    {"transaction", A_NUMBER, &options.transaction, "messages of a transaction; 0: none"},
    {"tls", A_SWITCH, &options.peer.tls, "encrypted connections"},
    {"seconds", A_FRACTION, &options.seconds, "how long to measure"},
    {"warmup", A_FRACTION, &options.warmup, "how long to run before that"},
    {"drain", A_FRACTION, &options.drain, "how long to wait for what is queued at the end"},
    {"rate", A_FRACTION, &options.rate, "messages published a second in all; 0: as many as go"},
    {"spaced", A_SWITCH, &options.spaced, "with --rate: each message at its own time"},
    {"in-flight", A_NUMBER, &options.in_flight, "messages not consumed yet at most; 0: any number"},
    {"copies", A_NUMBER, &options.copies, "deliveries of a message; 0: nothing is delivered"},
    {"window", A_NUMBER, &options.window, "messages open for confirmation; 0: no confirms"},
    {"ack-every", A_NUMBER, &options.ack_every, "messages an ack stands for"},
    {"auto-ack", A_SWITCH, &options.auto_ack, "no acks"},
    {"prefetch", A_NUMBER, &options.prefetch, "deliveries open for an ack"},
    {"burst", A_NUMBER, &options.burst, "messages of one write at most"},
    {"get", A_SWITCH, &options.get, "consumers use basic.get"},
    {"durable", A_SWITCH, &options.durable, "durable queues, persistent messages"},
    {"idle", A_NUMBER, &options.idle, "only hold this many connections"},
    {"declare", A_NUMBER, &options.declare, "only declare this many queues; durable ones stay"},
    {"count", A_NUMBER, &options.count, "only publish, or consume, so many messages"},
    {"name", A_TEXT, &options.name, "what names of queues begin with"},
    {"keep", A_SWITCH, &options.keep, "leave the queues there at the end"},
    {"declared", A_SWITCH, &options.declared, "the queues are there, and stay"},
    {"lazy", A_SWITCH, &options.lazy, "lazy queues"},
    {"limit", A_NUMBER, &options.limit, "seconds after which to give up"},
};
enum { KNOWN = sizeof known / sizeof *known };

_Noreturn static void print_usage(void)
{
    fputs("usage: load [options]; those with a value take it as the next argument\n", stderr);
    for (int i = 0; i < KNOWN; i++)
        fprintf(stderr, "  --%-13s %s\n", known[i].name, known[i].help);
    exit(2);
}

/* Numbers are never negative, and 0 only where the help says what it means. */
static double parse_number(const char *text, double maximum)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= maximum))
        print_usage();
    return value;
}

static void set_option(int index, const char *value)
{
    void *target = known[index].target;
    switch (known[index].kind) {
    case A_NUMBER: *(int *)target = (int)parse_number(value, 1 << 30); break;
    case A_FRACTION: *(double *)target = parse_number(value, 1e9); break;
    case A_TEXT: *(const char **)target = value; break;
    case A_SWITCH: *(bool *)target = true; break;
    }
}

static void parse_options(int count, char **arguments)
{
    struct option forms[KNOWN + 1] = {0};
    for (int i = 0; i < KNOWN; i++) {
        bool valued = known[i].kind != A_SWITCH;
        int form = valued ? required_argument : no_argument;
        forms[i] = (struct option){known[i].name, form, NULL, i};
    }
    for (int index; (index = getopt_long(count, arguments, "", forms, NULL)) != -1;) {
        if (index == '?')
            print_usage();
        set_option(index, optarg);
    }
    if (optind < count || options.queues < 1 || options.burst < 1 || options.ack_every < 1
        || options.channels < 1 || options.limit < 1
        || (options.channels > 1 && (options.window || options.transaction))
        || options.transaction > options.burst)
        print_usage();
}

#endif
