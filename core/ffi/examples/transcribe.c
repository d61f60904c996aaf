/* Prints what is said in a WAV file of 16 kHz, mono, 16 bits: transcribe MODEL_DIRECTORY FILE.wav */
#include <stdio.h>
#include <string.h>

#include "voxtral.h"

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

/* Writes all text that is decided by now; the space before the first word is left out. */
static vx_status drain(vx_stream *stream, int *begun)
{
    char text[1024];
    vx_status status;
    while ((status = vx_stream_get(stream, NULL, text, sizeof text)) == VX_STATUS_OK) {
        const char *from = *begun ? text : text + strspn(text, " ");
        *begun |= *from != '\0';
        fputs(from, stdout);
    }
    fflush(stdout);
    return status;
}

/* Goes to the samples of a plain WAV file. */
static int find_samples(FILE *file)
{
    unsigned char b[44];
    return fread(b, 1, 44, file) == 44 && !memcmp(b, "RIFF", 4) && !memcmp(b + 8, "WAVEfmt \x10\0\0\0\x01\0\x01\0", 16)
        && !memcmp(b + 24, "\x80\x3e\0\0", 4) && b[34] == 16 && !memcmp(b + 36, "data", 4);
}

int main(int argc, char **argv)
{
    vx_model *model;
    vx_stream *stream;
    char why[512];
    int begun = 0;
    if (argc != 3)
        return fail("usage", "transcribe MODEL_DIRECTORY FILE.wav");
    FILE *file = fopen(argv[2], "rb");
    if (!file || !find_samples(file))
        return fail(argv[2], "not a WAV file of 16 kHz, mono, 16 bits");
    if (vx_open(argv[1], &model, why, sizeof why) != VX_STATUS_OK)
        return fail(argv[1], why);
    vx_status status = vx_stream_open(model, NULL, 2, &stream);
    unsigned char bytes[8192];
    int16_t samples[4096];
    for (size_t n; status >= 0 && (n = fread(bytes, 2, 4096, file)) > 0;) {
        for (size_t i = 0; i < n; i++)
            samples[i] = (int16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
        for (size_t fed = 0, taken; status >= 0 && fed < n; fed += taken)
            if ((status = vx_stream_feed_s16(stream, samples + fed, n - fed, &taken)) >= 0)
                status = drain(stream, &begun);
    }
    if (status >= 0 && (status = vx_stream_finish(stream)) >= 0)
        status = drain(stream, &begun);
    putchar('\n');
    vx_stream_close(stream);
    vx_close(model);
    fclose(file);
    return status < 0 ? fail(argv[2], vx_message(status)) : 0;
}
