/* Sockets that may be encrypted: `socket_send` and `socket_receive` are send and recv for both
 * kinds.
 *
 * Without OpenSSL's headers (`WITH_TLS` is not defined then) everything but `--tls` works. A call
 * on an encrypted socket goes on until all is done or the socket blocks, so that a short count
 * means the same for both kinds. Certificates are not checked.
 */
#ifndef LEVERET_BENCH_TLS_H
#define LEVERET_BENCH_TLS_H

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

enum { SOCKETS_MAX = 4096 };

#ifdef WITH_TLS
#include <openssl/ssl.h>

static SSL *encrypted[SOCKETS_MAX];

/* Returns false if the handshake fails. */
static int socket_encrypt(int fd)
{
    static SSL_CTX *context;
    if (!context) {
        context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE
                                      | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
    SSL *session = fd < SOCKETS_MAX ? SSL_new(context) : NULL;
    if (!session || SSL_set_fd(session, fd) != 1 || SSL_connect(session) != 1)
        return 0;
    encrypted[fd] = session;
    return 1;
}

/* What a call of OpenSSL returned, as send and recv would return it. */
static ssize_t plain_count(SSL *session, int count, size_t done)
{
    if (done)
        return (ssize_t)done;
    int problem = SSL_get_error(session, count);
    if (problem == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = problem == SSL_ERROR_WANT_READ || problem == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
    return -1;
}

static ssize_t encrypted_send(SSL *session, const uint8_t *from, size_t size)
{
    size_t done = 0;
    int count = 1;
    while (done < size && (count = SSL_write(session, from + done, (int)(size - done))) > 0)
        done += (size_t)count;
    return plain_count(session, count, done);
}

/* Blocking sockets take one read: a second would wait for bytes that nobody has asked for. */
static ssize_t encrypted_receive(SSL *session, uint8_t *into, size_t size, int blocking)
{
    size_t done = 0;
    int count = 1;
    while (done < size && (count = SSL_read(session, into + done, (int)(size - done))) > 0) {
        done += (size_t)count;
        if (blocking)
            break;
    }
    return plain_count(session, count, done);
}
#endif

static inline ssize_t socket_send(int fd, const uint8_t *from, size_t size)
{
#ifdef WITH_TLS
    if (fd < SOCKETS_MAX && encrypted[fd])
        return encrypted_send(encrypted[fd], from, size);
#endif
    return send(fd, from, size, MSG_NOSIGNAL);
}

static inline ssize_t socket_receive(int fd, uint8_t *into, size_t size, int blocking)
{
#ifdef WITH_TLS
    if (fd < SOCKETS_MAX && encrypted[fd])
        return encrypted_receive(encrypted[fd], into, size, blocking);
#endif
    (void)blocking;
    return recv(fd, into, size, 0);
}

#endif
