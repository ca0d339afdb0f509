#include "client.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace standin {

namespace {

constexpr uint32_t MAGIC = 0x8A554432;
constexpr uint16_t DEFAULT_PORT = 12133;
constexpr size_t HEADER_BYTES = 20;
constexpr size_t FRAME_BYTES = HEADER_BYTES + 2048;
// How long what follows a reply may take.
constexpr milliseconds TRANSFER_TIMEOUT(10'000);
constexpr milliseconds FOREVER(-1);

void put(std::vector<uint8_t> &frame, size_t at, uint32_t value)
{
    for (size_t i = 0; i < 4; i++) {
        frame[at + i] = static_cast<uint8_t>(value >> (8 * i));
    }
}

uint32_t get(const std::vector<uint8_t> &frame, size_t at)
{
    uint32_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        value |= static_cast<uint32_t>(frame[at + i]) << (8 * i);
    }
    return value;
}

bool receive(int socket, uint8_t *data, size_t size, milliseconds timeout)
{
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (size > 0) {
        int wait = -1;
        if (timeout != FOREVER) {
            const auto left = std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
            wait = (left.count() > 0) ? static_cast<int>(left.count()) : 0;
        }
        pollfd ready = {socket, POLLIN, 0};
        const int polled = poll(&ready, 1, wait);
        if ((polled < 0) && (errno == EINTR)) {
            continue;
        }
        if (polled <= 0) {
            return false;
        }
        const auto read = recv(socket, data, size, 0);
        if ((read < 0) && (errno == EINTR)) {
            continue;
        }
        if (read <= 0) {
            return false;
        }
        data += read;
        size -= static_cast<size_t>(read);
    }
    return true;
}

bool send_all(int socket, const uint8_t *data, size_t size)
{
    while (size > 0) {
        const auto sent = ::send(socket, data, size, MSG_NOSIGNAL);
        if ((sent < 0) && (errno == EINTR)) {
            continue;
        }
        if (sent <= 0) {
            return false;
        }
        data += sent;
        size -= static_cast<size_t>(sent);
    }
    return true;
}

milliseconds overridden(milliseconds timeout)
{
    const char *seconds = std::getenv("HAILO_REQUEST_TIMEOUT_SECONDS");
    return (seconds != nullptr) ? milliseconds(1000L * std::strtol(seconds, nullptr, 10)) : timeout;
}

uint16_t port()
{
    const char *text = std::getenv("FIDELITY_STANDIN_PORT");
    const long number = (text != nullptr) ? std::strtol(text, nullptr, 10) : 0;
    return ((number > 0) && (number < 65536)) ? static_cast<uint16_t>(number) : DEFAULT_PORT;
}

} // namespace

Expected<std::shared_ptr<Client>> Client::connect(const std::string &address)
{
    sockaddr_in server = {};
    server.sin_family = AF_INET;
    server.sin_port = htons(port());
    if (inet_pton(AF_INET, address.c_str(), &server.sin_addr) != 1) {
        return hailort::make_unexpected(HAILO_INVALID_ARGUMENT);
    }
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) {
        return hailort::make_unexpected(HAILO_ETH_FAILURE);
    }
    if (::connect(socket, reinterpret_cast<const sockaddr *>(&server), sizeof(server)) != 0) {
        const auto status = (errno == ECONNREFUSED) ? HAILO_CONNECTION_REFUSED : HAILO_ETH_FAILURE;
        close(socket);
        return hailort::make_unexpected(status);
    }
    const int on = 1;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return std::shared_ptr<Client>(new Client(socket));
}

Client::Client(int socket) : m_socket(socket)
{
    m_reader = std::thread([this] { read_loop(); });
    m_writer = std::thread([this] { write_loop(); });
}

Client::~Client()
{
    {
        std::lock_guard<std::mutex> lock(m_mutex);
        m_open = false;
    }
    m_queued.notify_all();
    (void)shutdown(m_socket, SHUT_RDWR);
    m_reader.join();
    m_writer.join();
    close(m_socket);
}

Expected<uint32_t> Client::send(Action action, const std::string &body, Outgoing outgoing, Pending pending)
{
    outgoing.frame.resize(FRAME_BYTES);
    std::lock_guard<std::mutex> lock(m_mutex);
    if (!m_open) {
        return hailort::make_unexpected(HAILO_COMMUNICATION_CLOSED);
    }
    uint32_t id = m_next_id++;
    put(outgoing.frame, 0, MAGIC);
    put(outgoing.frame, 4, static_cast<uint32_t>(body.size()));
    put(outgoing.frame, 8, id);
    put(outgoing.frame, 12, static_cast<uint32_t>(action));
    put(outgoing.frame, 16, HAILO_UNINITIALIZED);
    std::copy(body.begin(), body.end(), outgoing.frame.begin() + HEADER_BYTES);
    m_pending.emplace(id, std::move(pending));
    m_queue.push_back(std::move(outgoing));
    m_queued.notify_one();
    return id;
}

void Client::forget(uint32_t message_id)
{
    std::lock_guard<std::mutex> lock(m_mutex);
    m_pending.erase(message_id);
}

Expected<std::string> Client::execute(Action action, const std::string &body, milliseconds timeout, size_t limit,
    std::shared_ptr<const std::vector<uint8_t>> follows)
{
    if (body.size() > limit) {
        return hailort::make_unexpected(HAILO_INTERNAL_FAILURE);
    }
    // HailoRT 5.2.0 waits without a predicate here, so that a reply that comes too early is lost and 4 is returned; this does not.
    struct Waiting {
        std::mutex mutex;
        std::condition_variable replied;
        bool done = false;
        hailo_status status = HAILO_UNINITIALIZED;
        std::string body;
    };
    auto waiting = std::make_shared<Waiting>();
    Pending pending{{}, [waiting](hailo_status status, const std::string &reply) {
        {
            std::lock_guard<std::mutex> lock(waiting->mutex);
            waiting->done = true;
            waiting->status = status;
            waiting->body = reply;
        }
        waiting->replied.notify_one();
    }};
    Outgoing outgoing;
    if (follows) {
        outgoing.buffers.push_back(MemoryView::create_const(follows->data(), follows->size()));
        outgoing.owned = std::move(follows);
    }
    const auto id = send(action, body, std::move(outgoing), std::move(pending));
    if (!id) {
        return hailort::make_unexpected(id.status());
    }
    std::unique_lock<std::mutex> lock(waiting->mutex);
    if (!waiting->replied.wait_for(lock, overridden(timeout), [&] { return waiting->done; })) {
        lock.unlock();
        forget(id.value());
        return hailort::make_unexpected(HAILO_TIMEOUT);
    }
    if (HAILO_SUCCESS != waiting->status) {
        return hailort::make_unexpected(waiting->status);
    }
    return std::move(waiting->body);
}

hailo_status Client::execute_async(Action action, const std::string &body, std::vector<MemoryView> writes,
    std::vector<MemoryView> reads, Callback callback)
{
    if (body.size() > REQUEST_MAX) {
        return HAILO_INTERNAL_FAILURE;
    }
    Outgoing outgoing;
    outgoing.buffers = std::move(writes);
    return send(action, body, std::move(outgoing), Pending{std::move(reads), std::move(callback)}).status();
}

void Client::write_loop()
{
    std::unique_lock<std::mutex> lock(m_mutex);
    while (true) {
        m_queued.wait(lock, [this] { return !m_open || !m_queue.empty(); });
        if (!m_open) {
            return;
        }
        auto outgoing = std::move(m_queue.front());
        m_queue.pop_front();
        lock.unlock();
        bool sent = send_all(m_socket, outgoing.frame.data(), outgoing.frame.size());
        for (const auto &buffer : outgoing.buffers) {
            sent = sent && send_all(m_socket, buffer.data(), buffer.size());
        }
        if (!sent) {
            // The reader sees it too and tells everyone.
            (void)shutdown(m_socket, SHUT_RDWR);
        }
        lock.lock();
    }
}

bool Client::read_reply()
{
    std::vector<uint8_t> frame(FRAME_BYTES);
    if (!receive(m_socket, frame.data(), frame.size(), FOREVER)) {
        return false;
    }
    const size_t size = get(frame, 4);
    if ((get(frame, 0) != MAGIC) || (size > FRAME_BYTES - HEADER_BYTES)) {
        return false;
    }
    if (get(frame, 12) == static_cast<uint32_t>(Action::NOTIFICATION)) {
        return true;
    }
    Pending pending;
    {
        std::lock_guard<std::mutex> lock(m_mutex);
        const auto found = m_pending.find(get(frame, 8));
        if (found == m_pending.end()) {
            return true;
        }
        pending = std::move(found->second);
        m_pending.erase(found);
    }
    const auto status = static_cast<hailo_status>(get(frame, 16));
    if (HAILO_SUCCESS == status) {
        for (auto &buffer : pending.reads) {
            if (!receive(m_socket, buffer.data(), buffer.size(), TRANSFER_TIMEOUT)) {
                return false;
            }
        }
    }
    pending.callback(status, std::string(frame.begin() + HEADER_BYTES, frame.begin() + static_cast<long>(HEADER_BYTES + size)));
    return true;
}

void Client::read_loop()
{
    while (read_reply()) {
    }
    std::map<uint32_t, Pending> pending;
    {
        std::lock_guard<std::mutex> lock(m_mutex);
        m_open = false;
        pending.swap(m_pending);
    }
    m_queued.notify_all();
    for (const auto &entry : pending) {
        entry.second.callback(HAILO_COMMUNICATION_CLOSED, std::string());
    }
}

} // namespace standin
