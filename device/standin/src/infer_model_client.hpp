// A model on the other side of the link.
#ifndef FIDELITY_STANDIN_INFER_MODEL_CLIENT_HPP
#define FIDELITY_STANDIN_INFER_MODEL_CLIENT_HPP

#include "client.hpp"
#include "hef_file.hpp"

#include "hailo/infer_model.hpp"

namespace hailort {

class InferModelClient final : public InferModel {
public:
    static Expected<std::shared_ptr<InferModel>> create(const MemoryView &hef, const std::string &name,
        const std::shared_ptr<standin::Client> &client, uint32_t handle, uint32_t vdevice_handle);

    InferModelClient(const standin::Group &group, const std::shared_ptr<standin::Client> &client, uint32_t handle, uint32_t vdevice_handle);
    ~InferModelClient() override;

    void set_batch_size(uint16_t batch_size) override { m_batch_size = batch_size; }
    void set_power_mode(hailo_power_mode_t power_mode) override { m_power_mode = power_mode; }
    void set_enable_kv_cache(bool enable_kv_cache) override { m_enable_kv_cache = enable_kv_cache; }
    Expected<ConfiguredInferModel> configure() override;
    const std::vector<InferStream> &inputs() const override { return m_inputs; }
    const std::vector<InferStream> &outputs() const override { return m_outputs; }

private:
    // As in HailoRT: the VDevice alone keeps the link.
    std::weak_ptr<standin::Client> m_client;
    uint32_t m_handle;
    uint32_t m_vdevice_handle;
    std::vector<InferStream> m_inputs;
    std::vector<InferStream> m_outputs;
    uint16_t m_batch_size = 0;
    hailo_power_mode_t m_power_mode = HAILO_POWER_MODE_PERFORMANCE;
    bool m_enable_kv_cache = false;
};

struct ConfiguredInferModel::Impl {
    // A stream and the size of its frame.
    using Frame = std::pair<std::string, size_t>;
    // What a callback may still use when this is gone.
    struct Jobs {
        std::mutex mutex;
        std::condition_variable finished;
        uint32_t ongoing = 0;
    };

    ~Impl();
    Expected<std::string> execute(standin::Action action, const std::string &body) const;
    Expected<std::vector<MemoryView>> bound(const std::vector<Frame> &frames, const std::map<std::string, MemoryView> &buffers) const;

    std::weak_ptr<standin::Client> client;
    uint32_t handle = 0;
    uint32_t model_handle = 0;
    uint32_t queue_size = 0;
    std::vector<Frame> inputs;
    std::vector<Frame> outputs;
    std::shared_ptr<Jobs> jobs = std::make_shared<Jobs>();
};

} // namespace hailort

#endif
