/* Pushes and pops ranges in every way that NVTX has. */
#include <nvtx3/nvToolsExt.h>

#include <stdio.h>
#include <stdlib.h>

static nvtxEventAttributes_t named(int type, nvtxMessageValue_t message) {
    nvtxEventAttributes_t attributes = {0};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = type;
    attributes.message = message;
    return attributes;
}

static void end_late(void) {
    nvtxRangePop();
    nvtxRangePushA("after the end");
    nvtxRangePop();
}

int main(void) {
    atexit(end_late);
    nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
    nvtxMessageValue_t text = {.ascii = "with attributes"}, wide = {.unicode = L"wide"};
    nvtxMessageValue_t registered = {.registered = nvtxDomainRegisterStringA(domain, "registered")};
    nvtxEventAttributes_t plain = named(NVTX_MESSAGE_TYPE_ASCII, text);
    nvtxEventAttributes_t known = named(NVTX_MESSAGE_TYPE_REGISTERED, registered);
    nvtxEventAttributes_t unread = named(NVTX_MESSAGE_TYPE_UNICODE, wide);
    nvtxRangePop(); /* of nothing */
    printf("depth %d\n", nvtxRangePushA("outer"));
    printf("depth %d\n", nvtxRangePushEx(&plain));
    printf("depth %d\n", nvtxDomainRangePushEx(domain, &known));
    nvtxDomainRangePushEx(domain, &unread);
    nvtxDomainRangePop(domain);
    nvtxDomainRangePop(domain);
    nvtxRangePop();
    nvtxRangePop();
    nvtxRangePushA("until the end");
    return 0;
}
