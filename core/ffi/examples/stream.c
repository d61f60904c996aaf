/* Hears raw samples (16 kHz, mono, 16 bits, little-endian) on standard input while it is open, and prints each word with
 * its time, its probability and what it might have been instead:
 *     arecord -q -f S16_LE -r 16000 -c 1 -t raw | stream MODEL_DIRECTORY
 *
 * The model is opened from files in memory, and the stream lives in blocks of the caller's, as in firmware: here from
 * malloc, there static. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "voxtral.h"

static void check(vx_status status, const char *what)
{
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, vx_message(status));
        exit(1);
    }
}

/* A whole file in memory. On a board: an address in flash, and a length. */
static vx_bytes load(const char *directory, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (file && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    unsigned char *data = size > 0 ? malloc((size_t)size) : NULL;
    if (!data || fseek(file, 0, SEEK_SET) != 0 || fread(data, 1, (size_t)size, file) != (size_t)size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    vx_bytes bytes = {data, (size_t)size};
    return bytes;
}

/* malloc gives multiples of VX_ALIGNMENT on all usual systems; if not, the library says so. */
static vx_memory block(size_t size)
{
    vx_memory memory = {malloc(size), size};
    return memory;
}

/* Prints the tokens that are decided by now. */
static vx_status drain(const vx_model *model, vx_stream *stream)
{
    vx_token token;
    char text[1024];
    vx_status status;
    while ((status = vx_stream_get(stream, &token, text, sizeof text)) == VX_STATUS_OK) {
        if (token.control || token.text_len == 0)
            continue;
        printf("%8.2f s %5.1f %%  \"%s\"", (double)token.sample / 16000, 100 * token.probability, text);
        for (uint32_t i = 0; i < token.alternative_count; i++) {
            uint8_t bytes[64];
            size_t len;
            if (vx_token_bytes(model, token.alternatives[i].id, bytes, sizeof bytes, &len) == VX_STATUS_OK)
                printf(" | %.1f %% \"%.*s\"", 100 * token.alternatives[i].probability, (int)len, (const char *)bytes);
        }
        putchar('\n');
    }
    fflush(stdout);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: stream MODEL_DIRECTORY < SAMPLES\n");
        return 2;
    }
    vx_files files = {load(argv[1], "consolidated.safetensors"), load(argv[1], "params.json"),
                      load(argv[1], "tekken.json")};
    const vx_model *model;
    size_t size;
    char why[512];
    check(vx_model_size(&files, &size), "model");
    vx_memory memory = block(size);
    if (vx_model_open(&files, memory.data, memory.size, &model) != VX_STATUS_OK) {
        vx_model_explain(&files, memory.data, memory.size, why, sizeof why);
        fprintf(stderr, "%s: %s\n", argv[1], why);
        return 1;
    }

    vx_options options = {0};
    options.chunk = 4; /* answers after 320 ms */
    options.live = 1;
    options.alternatives = 1;
    vx_sizes sizes;
    vx_stream *stream;
    check(vx_stream_size(model, &options, &sizes), "options");
    vx_memory blocks[] = {block(sizes.stream), block(sizes.state), block(sizes.scratch)};
    check(vx_stream_init(model, &options, blocks[0], blocks[1], blocks[2], &stream), "stream");
    fprintf(stderr, "%zu bytes of state, %zu of scratch\n", sizes.state, sizes.scratch);

    unsigned char bytes[320];
    int16_t samples[160];
    size_t n;
    while ((n = fread(bytes, 2, 160, stdin)) > 0) {
        for (size_t i = 0; i < n; i++)
            samples[i] = (int16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
        size_t taken;
        for (size_t fed = 0; fed < n; fed += taken) {
            check(vx_stream_feed_s16(stream, samples + fed, n - fed, &taken), "audio");
            check(drain(model, stream), "model");
        }
    }
    check(vx_stream_finish(stream), "audio");
    check(drain(model, stream), "model");

    for (int i = 0; i < 3; i++)
        free(blocks[i].data);
    free(memory.data);
    free((void *)files.weights.data);
    free((void *)files.params.data);
    free((void *)files.tekken.data);
    return 0;
}
