// A configured network group and its buffers.
#include "guard.hpp"
#include "handles.hpp"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using fidelity::check;
using fidelity::guarded;
using fidelity::require;
using fidelity::take;

namespace {

// Whole pages of its own, at an address that never changes: a device may write into them at any time of a run.
class Pages {
public:
    explicit Pages(size_t size) : m_size(size)
    {
        const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        m_allocated = (size + page - 1) / page * page;
        if (m_allocated < size) {
            throw std::bad_alloc();
        }
        if (m_allocated == 0) {
            return;
        }
        void *address = mmap(nullptr, m_allocated, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (address == MAP_FAILED) {
            throw fidelity::Failure{HAILO_OUT_OF_HOST_MEMORY, FID_STEP_ALLOC, "no memory for a stream's buffer"};
        }
        m_data = static_cast<uint8_t *>(address);
    }

    Pages(Pages &&other) noexcept : m_data(other.m_data), m_size(other.m_size), m_allocated(other.m_allocated)
    {
        other.m_data = nullptr;
    }

    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;
    Pages &operator=(Pages &&) = delete;

    ~Pages()
    {
        if (m_data != nullptr) {
            (void)munmap(m_data, m_allocated);
        }
    }

    uint8_t *data() const { return m_data; }
    size_t size() const { return m_size; }

private:
    uint8_t *m_data = nullptr;
    size_t m_size;
    size_t m_allocated = 0;
};

// How a job ended. The callback holds a share of it: it may come when no one waits any more.
struct Completion {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    hailo_status status = HAILO_UNINITIALIZED;

    void finish(hailo_status with)
    {
        {
            std::lock_guard<std::mutex> lock(mutex);
            done = true;
            status = with;
        }
        changed.notify_all();
    }
};

} // namespace

// Members are destroyed in reverse: the configured model before its buffers, the device last.
struct fid_group {
    std::shared_ptr<hailort::VDevice> vdevice;
    std::vector<Pages> inputs;
    std::vector<Pages> outputs;
    hailort::ConfiguredInferModel configured;
    hailort::ConfiguredInferModel::Bindings bindings;
    bool poisoned = false;
};

namespace {

void add_buffers(const std::vector<hailort::InferModel::InferStream> &streams, std::vector<Pages> &into,
    std::map<std::string, hailort::MemoryView> &by_name)
{
    into.reserve(streams.size());
    for (const auto &stream : streams) {
        into.emplace_back(stream.get_frame_size());
        by_name.emplace(stream.name(), hailort::MemoryView(into.back().data(), into.back().size()));
    }
}

void usable(const fid_group *group)
{
    require(group != nullptr, "group is null");
    if (group->poisoned) {
        throw fidelity::Failure{HAILO_INVALID_OPERATION, FID_STEP_ARGS,
            "a run of this group timed out and may still be in progress: end the process and start from init_cache(0) in another"};
    }
}

// Submits a job and waits. From `run_async` on a job may be in flight until its callback was called: whatever else ends the wait poisons.
void run(fid_group &group, std::chrono::milliseconds timeout)
{
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    check(group.configured.wait_for_async_ready(timeout, 1), FID_STEP_READY, "the device did not become ready for a run");
    auto completion = std::make_shared<Completion>();
    group.poisoned = true;
    auto job = group.configured.run_async(group.bindings,
        [completion](const hailort::AsyncInferCompletionInfo &info) { completion->finish(info.status); });
    if (HAILO_SUCCESS != job.status()) {
        // Nothing was submitted. The library has shut the configured model down.
        group.poisoned = false;
        throw fidelity::Failure{job.status(), FID_STEP_SUBMIT, "the run was not accepted"};
    }
    // Its destructor would wait 10 s; its status is not to be trusted (a local job's is always success): the callback's is.
    job.value().detach();
    std::unique_lock<std::mutex> lock(completion->mutex);
    if (!completion->changed.wait_until(lock, deadline, [&] { return completion->done; })) {
        throw fidelity::Failure{HAILO_TIMEOUT, FID_STEP_WAIT,
            "no answer within " + std::to_string(timeout.count()) + " ms; the run was not cancelled, the group is unusable"};
    }
    group.poisoned = false;
    check(completion->status, FID_STEP_WAIT, "the run failed");
}

} // namespace

fid_group *fidelity::configure(const fid_model &model)
{
    auto configured = take(model.model->configure(), FID_STEP_CONFIGURE, "cannot configure the network group");
    auto group = std::make_unique<fid_group>();
    group->vdevice = model.vdevice;
    std::map<std::string, hailort::MemoryView> by_name;
    add_buffers(model.model->inputs(), group->inputs, by_name);
    add_buffers(model.model->outputs(), group->outputs, by_name);
    group->configured = std::move(configured);
    group->bindings = take(group->configured.create_bindings(by_name), FID_STEP_BINDINGS, "cannot bind the streams' buffers");
    return group.release();
}

int32_t fid_group_queue_size(fid_group *group, size_t *out, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require((group != nullptr) && (out != nullptr), "group or out is null");
        *out = take(group->configured.get_async_queue_size(), FID_STEP_READY, "cannot get the queue's size");
    });
}

int32_t fid_group_buffer(fid_group *group, int32_t is_output, size_t index, uint8_t **data, size_t *length, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require((data != nullptr) && (length != nullptr), "data or length is null");
        usable(group);
        const auto &buffers = (is_output != 0) ? group->outputs : group->inputs;
        require(index < buffers.size(), "there is no stream of this index");
        *data = buffers[index].data();
        *length = buffers[index].size();
    });
}

int32_t fid_group_init_cache(fid_group *group, uint32_t offset, fid_error *error) noexcept
{
    return guarded(error, [&] {
        usable(group);
        check(group->configured.init_cache(offset), FID_STEP_CACHE, "init_cache(" + std::to_string(offset) + ") failed");
    });
}

int32_t fid_group_update_cache_offset(fid_group *group, int32_t delta, fid_error *error) noexcept
{
    return guarded(error, [&] {
        usable(group);
        check(group->configured.update_cache_offset(delta), FID_STEP_CACHE,
            "update_cache_offset(" + std::to_string(delta) + ") failed");
    });
}

int32_t fid_group_run(fid_group *group, uint32_t timeout_ms, fid_error *error) noexcept
{
    return guarded(error, [&] {
        usable(group);
        run(*group, std::chrono::milliseconds(timeout_ms));
    });
}

int32_t fid_group_is_poisoned(const fid_group *group) noexcept
{
    return ((group != nullptr) && group->poisoned) ? 1 : 0;
}

int32_t fid_group_shutdown(fid_group *group, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require(group != nullptr, "group is null");
        check(group->configured.shutdown(), FID_STEP_SHUTDOWN, "cannot shut the network group down");
    });
}

void fid_group_free(fid_group *group) noexcept
{
    if ((group == nullptr) || group->poisoned) {
        return;
    }
    (void)guarded(nullptr, [&] { delete group; });
}
