// A network group of a model: described, configured, run.
#ifndef FIDELITY_STANDIN_INFER_MODEL_HPP
#define FIDELITY_STANDIN_INFER_MODEL_HPP

#include "hailo/buffer.hpp"
#include "hailo/expected.hpp"
#include "hailo/hef.hpp"
#include "hailo/vdevice.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hailort {

class HAILORTAPI AsyncInferJob {
public:
    AsyncInferJob() = default;
    // Waits up to 10 s, unless detached.
    ~AsyncInferJob();
    AsyncInferJob(AsyncInferJob &&other);
    AsyncInferJob &operator=(AsyncInferJob &&other);
    AsyncInferJob(const AsyncInferJob &) = delete;
    AsyncInferJob &operator=(const AsyncInferJob &) = delete;

    hailo_status wait(std::chrono::milliseconds timeout);
    void detach();

private:
    friend class ConfiguredInferModel;

    struct State;
    explicit AsyncInferJob(std::shared_ptr<State> state);
    std::shared_ptr<State> m_state;
};

struct HAILORTAPI AsyncInferCompletionInfo {
    AsyncInferCompletionInfo(hailo_status _status) : status(_status) {}

    hailo_status status;
};

class HAILORTAPI ConfiguredInferModel {
public:
    // The buffers of one inference.
    class HAILORTAPI Bindings {
    public:
        Bindings() = default;

    private:
        friend class ConfiguredInferModel;

        std::map<std::string, MemoryView> m_buffers;
    };

    ConfiguredInferModel() = default;

    Expected<Bindings> create_bindings(const std::map<std::string, MemoryView> &buffers);
    hailo_status wait_for_async_ready(std::chrono::milliseconds timeout, uint32_t frames_count = 1);
    Expected<AsyncInferJob> run_async(const Bindings &bindings, std::function<void(const AsyncInferCompletionInfo &)> callback);
    Expected<size_t> get_async_queue_size() const;
    hailo_status shutdown();
    hailo_status update_cache_offset(int32_t offset_delta_entries);
    hailo_status init_cache(uint32_t read_offset);

private:
    friend class InferModelClient;

    struct Impl;
    explicit ConfiguredInferModel(std::shared_ptr<Impl> impl);
    std::shared_ptr<Impl> m_impl;
};

class HAILORTAPI InferModel {
public:
    // Copies share their state.
    class HAILORTAPI InferStream {
    public:
        const std::string name() const;
        hailo_3d_image_shape_t shape() const;
        hailo_format_t format() const;
        size_t get_frame_size() const;
        void set_format_type(hailo_format_type_t type);
        void set_format_order(hailo_format_order_t order);
        std::vector<hailo_quant_info_t> get_quant_infos() const;
        bool is_nms() const;

    private:
        friend class InferModelClient;

        struct State;
        explicit InferStream(std::shared_ptr<State> state);
        std::shared_ptr<State> m_state;
    };

    virtual ~InferModel() = default;
    virtual void set_batch_size(uint16_t batch_size) = 0;
    virtual void set_power_mode(hailo_power_mode_t power_mode) = 0;
    virtual void set_enable_kv_cache(bool enable_kv_cache) = 0;
    virtual Expected<ConfiguredInferModel> configure() = 0;
    virtual const std::vector<InferStream> &inputs() const = 0;
    virtual const std::vector<InferStream> &outputs() const = 0;
};

} // namespace hailort

#endif
