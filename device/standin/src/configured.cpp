#include "infer_model_client.hpp"

#include "message.hpp"

namespace hailort {

using standin::Action;
using standin::Message;

namespace {

// BufferType::VIEW in hailo/network_group.hpp.
constexpr uint32_t BUFFER_VIEW = 1;
constexpr std::chrono::milliseconds WAIT_IN_DESTRUCTOR(10'000);

} // namespace

struct AsyncInferJob::State {
    std::mutex mutex;
    std::condition_variable finished;
    hailo_status status = HAILO_UNINITIALIZED;
};

AsyncInferJob::AsyncInferJob(std::shared_ptr<State> state) : m_state(std::move(state)) {}

AsyncInferJob::AsyncInferJob(AsyncInferJob &&other) : m_state(std::move(other.m_state)) {}

AsyncInferJob &AsyncInferJob::operator=(AsyncInferJob &&other)
{
    std::swap(m_state, other.m_state);
    return *this;
}

AsyncInferJob::~AsyncInferJob()
{
    (void)wait(WAIT_IN_DESTRUCTOR);
}

hailo_status AsyncInferJob::wait(std::chrono::milliseconds timeout)
{
    if (!m_state) {
        return HAILO_INVALID_OPERATION;
    }
    std::unique_lock<std::mutex> lock(m_state->mutex);
    const bool done = m_state->finished.wait_for(lock, timeout, [this] { return HAILO_UNINITIALIZED != m_state->status; });
    return done ? m_state->status : HAILO_TIMEOUT;
}

void AsyncInferJob::detach()
{
    m_state.reset();
}

ConfiguredInferModel::ConfiguredInferModel(std::shared_ptr<Impl> impl) : m_impl(std::move(impl)) {}

ConfiguredInferModel::Impl::~Impl()
{
    (void)execute(Action::CONFIGURED_DESTROY, Message().handle(1, handle).str());
}

Expected<std::string> ConfiguredInferModel::Impl::execute(Action action, const std::string &body) const
{
    const auto link = client.lock();
    if (!link) {
        return make_unexpected(HAILO_INTERNAL_FAILURE);
    }
    return link->execute(action, body);
}

// The buffers of these streams, in their order.
Expected<std::vector<MemoryView>> ConfiguredInferModel::Impl::bound(const std::vector<Frame> &frames,
    const std::map<std::string, MemoryView> &buffers) const
{
    std::vector<MemoryView> views;
    for (const auto &[name, size] : frames) {
        const auto found = buffers.find(name);
        if (found == buffers.end()) {
            return make_unexpected(HAILO_NOT_FOUND);
        }
        if (found->second.size() != size) {
            return make_unexpected(HAILO_INVALID_OPERATION);
        }
        views.push_back(found->second);
    }
    return views;
}

Expected<ConfiguredInferModel::Bindings> ConfiguredInferModel::create_bindings(const std::map<std::string, MemoryView> &buffers)
{
    size_t used = 0;
    for (const auto *frames : {&m_impl->inputs, &m_impl->outputs}) {
        for (const auto &frame : *frames) {
            used += buffers.count(frame.first);
        }
    }
    if (used != buffers.size()) {
        return make_unexpected(HAILO_INVALID_ARGUMENT);
    }
    Bindings bindings;
    bindings.m_buffers = buffers;
    return bindings;
}

hailo_status ConfiguredInferModel::wait_for_async_ready(std::chrono::milliseconds timeout, uint32_t frames_count)
{
    auto &jobs = *m_impl->jobs;
    std::unique_lock<std::mutex> lock(jobs.mutex);
    const bool ready = jobs.finished.wait_for(lock, timeout,
        [&] { return (m_impl->queue_size >= jobs.ongoing) && (m_impl->queue_size - jobs.ongoing >= frames_count); });
    return ready ? HAILO_SUCCESS : HAILO_TIMEOUT;
}

Expected<AsyncInferJob> ConfiguredInferModel::run_async(const Bindings &bindings,
    std::function<void(const AsyncInferCompletionInfo &)> callback)
{
    const auto refuse = [this](hailo_status status) {
        // Both the model and what wraps it shut down when a job is not accepted.
        (void)shutdown();
        (void)shutdown();
        return make_unexpected(status);
    };
    auto writes = m_impl->bound(m_impl->inputs, bindings.m_buffers);
    if (!writes) {
        return refuse(writes.status());
    }
    auto reads = m_impl->bound(m_impl->outputs, bindings.m_buffers);
    if (!reads) {
        return refuse(reads.status());
    }
    const auto client = m_impl->client.lock();
    if (!client) {
        return refuse(HAILO_INTERNAL_FAILURE);
    }
    Message request;
    request.handle(1, m_impl->handle).handle(2, m_impl->model_handle);
    for (const auto *views : {&writes.value(), &reads.value()}) {
        for (const auto &view : *views) {
            request.message(3, Message().number(1, view.size()).number(2, BUFFER_VIEW));
        }
    }
    auto state = std::make_shared<AsyncInferJob::State>();
    auto jobs = m_impl->jobs;
    {
        std::lock_guard<std::mutex> lock(jobs->mutex);
        jobs->ongoing++;
    }
    const auto finish = [jobs, state, callback](hailo_status status, const std::string &) {
        {
            std::lock_guard<std::mutex> lock(jobs->mutex);
            jobs->ongoing--;
        }
        jobs->finished.notify_all();
        if (callback) {
            callback(AsyncInferCompletionInfo(status));
        }
        {
            std::lock_guard<std::mutex> lock(state->mutex);
            state->status = status;
        }
        state->finished.notify_all();
    };
    const auto status = client->execute_async(Action::CONFIGURED_RUN_ASYNC, request.str(), writes.release(), reads.release(), finish);
    if (HAILO_SUCCESS != status) {
        return refuse(status);
    }
    return AsyncInferJob(std::move(state));
}

Expected<size_t> ConfiguredInferModel::get_async_queue_size() const
{
    return static_cast<size_t>(m_impl->queue_size);
}

hailo_status ConfiguredInferModel::shutdown()
{
    return m_impl->execute(Action::CONFIGURED_SHUTDOWN, Message().handle(1, m_impl->handle).str()).status();
}

hailo_status ConfiguredInferModel::update_cache_offset(int32_t offset_delta_entries)
{
    auto request = Message().handle(1, m_impl->handle).signed_number(2, offset_delta_entries);
    return m_impl->execute(Action::CONFIGURED_UPDATE_CACHE_OFFSET, request.str()).status();
}

hailo_status ConfiguredInferModel::init_cache(uint32_t read_offset)
{
    auto request = Message().handle(1, m_impl->handle).number(2, read_offset);
    return m_impl->execute(Action::CONFIGURED_INIT_CACHE, request.str()).status();
}

} // namespace hailort
