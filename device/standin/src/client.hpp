// The RPC client: frames over TCP to the server of a chip, or of what impersonates one.
//
// A frame has 2068 bytes whatever it says: a header of five little-endian u32 (magic, size of the body, message id, action id, status), then
// room for 2048 bytes of body. Raw buffers may follow. See hailort/hrpc/{client,rpc_connection}.cpp of HailoRT 5.2.0.
#ifndef FIDELITY_STANDIN_CLIENT_HPP
#define FIDELITY_STANDIN_CLIENT_HPP

#include "hailo/buffer.hpp"
#include "hailo/expected.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace standin {

using hailort::Expected;
using hailort::MemoryView;
using std::chrono::milliseconds;

// Numbers of HailoRpcActionID in hailort/hrpc_protocol/serializer.hpp.
enum class Action : uint32_t {
    VDEVICE_CREATE = 0,
    VDEVICE_DESTROY = 1,
    VDEVICE_CREATE_INFER_MODEL = 2,
    INFER_MODEL_DESTROY = 3,
    INFER_MODEL_CREATE_CONFIGURED = 4,
    CONFIGURED_DESTROY = 5,
    CONFIGURED_SHUTDOWN = 12,
    CONFIGURED_UPDATE_CACHE_OFFSET = 13,
    CONFIGURED_INIT_CACHE = 14,
    CONFIGURED_RUN_ASYNC = 18,
    DEVICE_CREATE = 20,
    DEVICE_DESTROY = 21,
    DEVICE_IDENTIFY = 22,
    DEVICE_SET_NOTIFICATION_CALLBACK = 33,
    NOTIFICATION = 37,
};

constexpr milliseconds REQUEST_TIMEOUT(10'000);
constexpr milliseconds LONG_REQUEST_TIMEOUT(45'000);
// What a request may take; configuring has more.
constexpr size_t REQUEST_MAX = 256;
constexpr size_t CONFIGURE_MAX = 2048;

class Client {
public:
    using Callback = std::function<void(hailo_status, const std::string &body)>;

    // Connects to port 12133, or FIDELITY_STANDIN_PORT, of an IPv4 address.
    static Expected<std::shared_ptr<Client>> connect(const std::string &address);
    ~Client();
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;

    // Sends a request and what follows it, waits for the reply and gives its body. HAILO_REQUEST_TIMEOUT_SECONDS overrides the time.
    Expected<std::string> execute(Action action, const std::string &body, milliseconds timeout = REQUEST_TIMEOUT,
        size_t limit = REQUEST_MAX, std::shared_ptr<const std::vector<uint8_t>> follows = nullptr);
    // Sends and returns. A reply of success is followed by `reads`, which are filled whenever it comes, then the callback is called; once the
    // link is closed it is called with 62, unless the link broke while `reads` were being filled: then never.
    hailo_status execute_async(Action action, const std::string &body, std::vector<MemoryView> writes, std::vector<MemoryView> reads,
        Callback callback);

private:
    struct Outgoing {
        std::vector<uint8_t> frame;
        std::vector<MemoryView> buffers;
        std::shared_ptr<const std::vector<uint8_t>> owned;
    };
    struct Pending {
        std::vector<MemoryView> reads;
        Callback callback;
    };

    explicit Client(int socket);
    Expected<uint32_t> send(Action action, const std::string &body, Outgoing outgoing, Pending pending);
    void forget(uint32_t message_id);
    void read_loop();
    bool read_reply();
    void write_loop();

    int m_socket;
    std::mutex m_mutex;
    std::condition_variable m_queued;
    std::deque<Outgoing> m_queue;
    std::map<uint32_t, Pending> m_pending;
    uint32_t m_next_id = 0;
    bool m_open = true;
    std::thread m_reader;
    std::thread m_writer;
};

} // namespace standin

#endif
