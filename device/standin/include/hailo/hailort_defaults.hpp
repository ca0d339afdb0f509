// Defaults of parameters.
#ifndef FIDELITY_STANDIN_HAILORT_DEFAULTS_HPP
#define FIDELITY_STANDIN_HAILORT_DEFAULTS_HPP

#include "hailo/hailort.h"

namespace hailort {

class HAILORTAPI HailoRTDefaults final {
public:
    HailoRTDefaults() = delete;

    static hailo_vdevice_params_t get_vdevice_params()
    {
        hailo_vdevice_params_t params = {};
        params.device_count = 1;
        params.scheduling_algorithm = HAILO_SCHEDULING_ALGORITHM_ROUND_ROBIN;
        params.group_id = HAILO_UNIQUE_VDEVICE_GROUP_ID;
        return params;
    }
};

} // namespace hailort

#endif
