/* A stand-in of NVIDIA's libnvidia-ml.so.1: its GPUs are what the file named by FAKE_NVML says, one line:
   COUNT LOST PENDING XID XID_GPU (numbers; -1: none). An XID is reported once for each change of the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct { int count, lost, pending, xid, xid_gpu; } State;
typedef struct { unsigned gpu, memory; } Rates;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } Event;

static char gpus[64];
static ino_t reported;
static int initialized;

static State state(void) {
    State found = {0, -1, -1, -1, -1};
    FILE *file = fopen(getenv("FAKE_NVML"), "r");
    if (file) {
        if (fscanf(file, "%d %d %d %d %d", &found.count, &found.lost, &found.pending, &found.xid, &found.xid_gpu) != 5)
            found.count = 0;
        fclose(file);
    }
    return found;
}

static int number(void *device) { return (int)((char *)device - gpus); }
static int lost(void *device) { return state().lost == number(device) ? 15 : 0; }

int nvmlInit_v2(void) { initialized++; return state().count < 0 ? 9 : 0; }
int nvmlShutdown(void) { initialized--; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = state().count; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = gpus + index; return lost(*device); }
int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    snprintf(name, length, "NVIDIA H100 80GB HBM3");
    return lost(device);
}
int nvmlDeviceGetUtilizationRates(void *device, Rates *rates) {
    rates->gpu = 40 + number(device);
    rates->memory = 7;
    return lost(device);
}
int nvmlDeviceGetMemoryInfo(void *device, Memory *memory) {
    memory->total = 80ULL << 30;
    memory->used = (1ULL + number(device)) << 30;
    memory->free = memory->total - memory->used;
    return lost(device);
}
int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    *corrected = *uncorrected = *failed = 0;
    *pending = state().pending == number(device);
    return lost(device);
}
int nvmlEventSetCreate(void **set) { *set = gpus; return 0; }
int nvmlEventSetFree(void *set) { (void)set; return 0; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) {
    (void)set;
    return types == 8 ? lost(device) : 2;
}
int nvmlEventSetWait_v2(void *set, Event *event, unsigned timeout_ms) {
    (void)set;
    for (unsigned waited = 0; waited <= timeout_ms; waited += 20) {
        struct stat seen;
        State now = state();
        if (now.xid >= 0 && stat(getenv("FAKE_NVML"), &seen) == 0 && seen.st_ino != reported) {
            reported = seen.st_ino;
            memset(event, 0, sizeof *event);
            event->device = gpus + now.xid_gpu;
            event->type = 8;
            event->data = now.xid;
            return 0;
        }
        usleep(20000);
    }
    return 10;
}
