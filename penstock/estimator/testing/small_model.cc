#include "penstock/estimator/testing/small_model.h"
