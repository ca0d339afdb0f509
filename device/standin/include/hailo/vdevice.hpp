// A device that models are sent to.
#ifndef FIDELITY_STANDIN_VDEVICE_HPP
#define FIDELITY_STANDIN_VDEVICE_HPP

#include "hailo/buffer.hpp"
#include "hailo/device.hpp"
#include "hailo/expected.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hailort {

class InferModel;

class HAILORTAPI VDevice {
public:
    static Expected<std::shared_ptr<VDevice>> create_shared(const hailo_vdevice_params_t &params);

    Expected<std::shared_ptr<InferModel>> create_infer_model(const std::string &hef_path, const std::string &name = "");
    Expected<std::shared_ptr<InferModel>> create_infer_model(const MemoryView hef_buffer, const std::string &name = "");
    Expected<std::vector<std::reference_wrapper<Device>>> get_physical_devices() const;

    ~VDevice();
    VDevice(const VDevice &) = delete;
    VDevice &operator=(const VDevice &) = delete;

private:
    struct Impl;
    explicit VDevice(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

} // namespace hailort

#endif
