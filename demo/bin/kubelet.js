#!/usr/bin/env node
// Starts the build of this package; its source is src/kubelet/main.ts.

import "../dist/kubelet/main.js";
