#!/usr/bin/env node
// Starts the build of this package; its source is src/pod/main.ts.

import "../dist/pod/main.js";
