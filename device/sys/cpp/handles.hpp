// The types behind the handles.
#ifndef FIDELITY_HAILORT_HANDLES_HPP
#define FIDELITY_HAILORT_HANDLES_HPP

#include "shim.h"

#include "hailo/hailort.h"
#include "hailo/infer_model.hpp"
#include "hailo/vdevice.hpp"

#include <memory>

// The library's models hold weak references to the connection: whatever outlives its VDevice fails, hence every handle holds it.
struct fid_device {
    std::shared_ptr<hailort::VDevice> vdevice;
};

struct fid_model {
    std::shared_ptr<hailort::VDevice> vdevice;
    std::shared_ptr<hailort::InferModel> model;
};

namespace fidelity {

// Configures the model and binds buffers of the group's own.
fid_group *configure(const fid_model &model);

} // namespace fidelity

#endif
