/* Speech to text with Voxtral Realtime models: samples in, text out.
 *
 * Made by cbindgen from core/ffi/src; change it there.
 *
 * Memory is the caller's: sizes are asked for, blocks handed in. Nothing is allocated, nothing needs to be freed; only
 * the last section, for systems with files and threads (not in builds without the feature "std"), allocates. There is
 * no global state. Audio is 16 kHz, mono.
 *
 * Every call returns a vx_status and changes nothing but what it says if that is an error. A stream may be used by one
 * thread at a time; a second one gets VX_STATUS_BUSY. A model is only read, by any number of streams and threads.
 * Pointers that are null, lengths of zero and calls out of order are errors; pointers to memory that is not there, or
 * shorter than said, cannot be noticed. */

#ifndef VOXTRAL_H
#define VOXTRAL_H

#include <stddef.h>
#include <stdint.h>

/*
 Alignment of the memory of models and streams in bytes; state and scratch want that of a float.
 */
#define VX_ALIGNMENT 16

/*
 Most other tokens that are told of one.
 */
#define VX_ALTERNATIVES 2

/*
 The id of what is no token.
 */
#define VX_NO_TOKEN UINT32_MAX

/*
 What a call came to. Negative ones are errors.
 */
typedef enum vx_status {
    /*
     Done; from vx_stream_get and vx_stream_step: a token was given.
     */
    VX_STATUS_OK = 0,
    /*
     vx_stream_step worked without deciding a token: call it again.
     */
    VX_STATUS_WORKED = 1,
    /*
     Nothing to do before more samples are fed, or the stream is finished or flushed.
     */
    VX_STATUS_NEED_AUDIO = 2,
    /*
     The stream is at its end: it can be reset for the next one.
     */
    VX_STATUS_DONE = 3,
    /*
     A pointer is null, or a length is zero or beyond what can be addressed.
     */
    VX_STATUS_BAD_ARGUMENT = -1,
    /*
     This is no handle of that kind: never opened, or closed.
     */
    VX_STATUS_BAD_HANDLE = -2,
    /*
     Memory is not aligned as it must be (VX_ALIGNMENT).
     */
    VX_STATUS_MISALIGNED = -3,
    /*
     Memory or a text buffer is too small; the size that was asked for says how large it must be.
     */
    VX_STATUS_TOO_SMALL = -4,
    /*
     Another thread is using the stream.
     */
    VX_STATUS_BUSY = -5,
    /*
     Samples after the end: reset the stream first.
     */
    VX_STATUS_FINISHED = -6,
    /*
     A sample that cannot be audio: not a number, infinite or beyond +-64.
     */
    VX_STATUS_BAD_SAMPLE = -7,
    /*
     An option is impossible with this model.
     */
    VX_STATUS_BAD_OPTION = -8,
    /*
     The weights are no safetensors file, or a damaged one.
     */
    VX_STATUS_BAD_WEIGHTS = -9,
    /*
     params.json cannot be read, or describes no such model.
     */
    VX_STATUS_BAD_PARAMS = -10,
    /*
     tekken.json cannot be read, or is no such vocabulary.
     */
    VX_STATUS_BAD_VOCABULARY = -11,
    /*
     The files do not belong together: tensors are missing or of other shapes, or vocabularies differ.
     */
    VX_STATUS_MISMATCH = -12,
    /*
     The weights are damaged, which a computation noticed; the stream can only be reset.
     */
    VX_STATUS_DAMAGED = -13,
    /*
     The model is still used by streams.
     */
    VX_STATUS_IN_USE = -14,
    /*
     The system has not enough memory.
     */
    VX_STATUS_NO_MEMORY = -15,
    /*
     A file or directory cannot be opened.
     */
    VX_STATUS_NO_FILE = -16,
    /*
     This is no packed model, or a damaged one.
     */
    VX_STATUS_BAD_IMAGE = -17,
} vx_status;

/*
 A model that was opened. It is only read from then on.
 */
typedef struct vx_model vx_model;

/*
 A stream. One thread at a time uses it.
 */
typedef struct vx_stream vx_stream;

/*
 Bytes that are only read.
 */
typedef struct vx_bytes {
    /*
     The first of them.
     */
    const uint8_t *data;
    /*
     How many.
     */
    size_t len;
} vx_bytes;

/*
 The files of a model, somewhere in memory: mapped, in flash, or linked into the program.
 */
typedef struct vx_files {
    /*
     consolidated.safetensors.
     */
    struct vx_bytes weights;
    /*
     params.json.
     */
    struct vx_bytes params;
    /*
     tekken.json.
     */
    struct vx_bytes tekken;
} vx_files;

/*
 What the caller chooses. All zeros are what serves most; so is a null pointer in place of the struct.
 */
typedef struct vx_options {
    /*
     How far the text lags behind the audio: 80, 160, ... 1200 or 2400. 0: the model's own.
     */
    uint32_t delay_ms;
    /*
     Most positions of 80 ms in one pass: fewer answer sooner and need less memory. 0: 25.
     */
    uint32_t chunk;
    /*
     Most positions that are decoded at once where audio waits, 1 to 8. 0: 8.
     */
    uint32_t batch;
    /*
     Positions that the decoder sees, and that its cache has room for. 0: the model's own.
     */
    uint32_t window;
    /*
     How the caches are kept. 0: as float; 1: as bfloat16, half of the memory; 2: as 8 bits, a little more than a quarter.
     */
    uint32_t cache;
    /*
     1: live audio, which goes on behind an end-of-text token. 0: that token ends the stream.
     */
    uint32_t live;
    /*
     1: tokens come with probabilities and alternatives. 0: without, which needs less memory.
     */
    uint32_t alternatives;
} vx_options;

/*
 What a stream needs, in bytes.
 */
typedef struct vx_sizes {
    /*
     The stream itself; at a multiple of VX_ALIGNMENT.
     */
    size_t stream;
    /*
     What it keeps between calls, most of it caches; aligned as a float.
     */
    size_t state;
    /*
     What one call needs and the next need not find: streams that are never used at the same time may share it.
     */
    size_t scratch;
} vx_sizes;

/*
 A block of the caller's memory, whose contents do not matter.
 */
typedef struct vx_memory {
    /*
     Its beginning.
     */
    void *data;
    /*
     Its size in bytes.
     */
    size_t size;
} vx_memory;

/*
 A token that might have been decided.
 */
typedef struct vx_candidate {
    /*
     Its id.
     */
    uint32_t id;
    /*
     Its probability among all ids.
     */
    float probability;
} vx_candidate;

/*
 A token that was decided.
 */
typedef struct vx_token {
    /*
     Its id; VX_NO_TOKEN for what was left of a character at the end.
     */
    uint32_t id;
    /*
     1 for a control token, which has no text.
     */
    uint32_t control;
    /*
     The position it was decided at, of 80 ms each, those before the audio included.
     */
    uint64_t position;
    /*
     About the sample of the audio where the word ended that the token belongs to.
     */
    uint64_t sample;
    /*
     Bytes of the text, without the zero behind it.
     */
    size_t text_len;
    /*
     Its probability; 0 unless asked for by the options.
     */
    float probability;
    /*
     How many of the alternatives there are.
     */
    uint32_t alternative_count;
    /*
     What it might have been instead, the likeliest first. vx_token_bytes gives their text.
     */
    struct vx_candidate alternatives[VX_ALTERNATIVES];
} vx_token;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 A line of text about a status, without an end of line; one for any number. It is constant and never freed.
 */
const char *vx_message(int status);

/*
 Finds the files of a model that `voxtral pack` put into one image, which may be followed by anything. Only the header
 of the image is read. VX_STATUS_BAD_IMAGE if it is none, or a damaged one.
 */
enum vx_status vx_image_files(const uint8_t *image,
                              size_t len,
                              struct vx_files *files);

/*
 How many bytes vx_model_open needs for these files.
 */
enum vx_status vx_model_size(const struct vx_files *files, size_t *size);

/*
 Opens a model whose files are in memory, in a block of at least vx_model_size bytes at a multiple of VX_ALIGNMENT.
 Weights are read where they lie. The files and the block must stay as they are for as long as the model is used; it
 needs no closing.
 */
enum vx_status vx_model_open(const struct vx_files *files,
                             void *memory,
                             size_t size,
                             const struct vx_model **model);

/*
 Does what vx_model_open does, and if that fails writes a line about what is wrong, and where, to text, cut to
 text_size bytes with the zero behind it. Brings the code that formats messages into the program, which
 vx_model_open does not.
 */
enum vx_status vx_model_explain(const struct vx_files *files,
                                void *memory,
                                size_t size,
                                char *text,
                                size_t text_size);

/*
 The bytes of a token's text, for alternatives: not always whole characters, none for control tokens. Writes up to
 size of them and says in len how many there are.
 */
enum vx_status vx_token_bytes(const struct vx_model *model,
                              uint32_t id,
                              uint8_t *bytes,
                              size_t size,
                              size_t *len);

/*
 How many bytes a stream with these options needs.
 */
enum vx_status vx_stream_size(const struct vx_model *model,
                              const struct vx_options *options,
                              struct vx_sizes *sizes);

/*
 Makes a stream in three blocks of memory, each at least as large as vx_stream_size said for these options. They must
 stay in their places for as long as the stream is used, and so must the model; it needs no closing.
 */
enum vx_status vx_stream_init(const struct vx_model *model,
                              const struct vx_options *options,
                              struct vx_memory memory,
                              struct vx_memory state,
                              struct vx_memory scratch,
                              struct vx_stream **stream);

/*
 Takes as many samples from -1 to 1 as there is room for, and says in taken how many: none if vx_stream_get has to
 work first. For VX_STATUS_BAD_SAMPLE it says which one is bad, and none was taken.
 */
enum vx_status vx_stream_feed(struct vx_stream *stream,
                              const float *samples,
                              size_t count,
                              size_t *taken);

/*
 As vx_stream_feed, for samples of 16 bits, which no value of is bad.
 */
enum vx_status vx_stream_feed_s16(struct vx_stream *stream,
                                  const int16_t *samples,
                                  size_t count,
                                  size_t *taken);

/*
 Works until a token is decided and gives it out (VX_STATUS_OK), or until there is nothing to do
 (VX_STATUS_NEED_AUDIO, VX_STATUS_DONE). Call it until it says one of these, after every feed.

 text receives the characters that the token made whole, UTF-8 with a zero behind, of which many tokens have none. If
 text_size is too small (VX_STATUS_TOO_SMALL) token->text_len says how long it is, and the same token is given again.
 Either pointer may be null.
 */
enum vx_status vx_stream_get(struct vx_stream *stream,
                             struct vx_token *token,
                             char *text,
                             size_t text_size);

/*
 As vx_stream_get, but does one bounded unit of work at most, and says VX_STATUS_WORKED if no token came of it.
 */
enum vx_status vx_stream_step(struct vx_stream *stream,
                              struct vx_token *token,
                              char *text,
                              size_t text_size);

/*
 Brings out the words that wait for the delay, as at a pause, and lets the stream go on: vx_stream_get gives them.
 */
enum vx_status vx_stream_flush(struct vx_stream *stream);

/*
 Says that no more samples come: vx_stream_get gives what is left, then VX_STATUS_DONE. Again does nothing.
 */
enum vx_status vx_stream_finish(struct vx_stream *stream);

/*
 Back to the start, for the next audio, at any time.
 */
enum vx_status vx_stream_reset(struct vx_stream *stream);

/*
 Before any audio: lets the following calls of vx_stream_get do the work that every stream begins with, so that the
 first word comes sooner. It changes no result.
 */
enum vx_status vx_stream_prime(struct vx_stream *stream);

/*
 Opens a directory with consolidated.safetensors, params.json and tekken.json, which it maps. If that fails a line
 about why is written to text, cut to text_size bytes with the zero behind it; text may be null. To be closed by
 vx_close.
 */
enum vx_status vx_open(const char *directory,
                       struct vx_model **model,
                       char *text,
                       size_t text_size);

/*
 Closes a model of vx_open. Null is none, and nothing is done.
 */
enum vx_status vx_close(struct vx_model *model);

/*
 Makes a stream that allocates what it needs and computes by so many threads (1: by that of the caller). To be closed
 by vx_stream_close, before its model is.
 */
enum vx_status vx_stream_open(const struct vx_model *model,
                              const struct vx_options *options,
                              uint32_t threads,
                              struct vx_stream **stream);

/*
 Closes a stream of vx_stream_open. Null is none, and nothing is done.
 */
enum vx_status vx_stream_close(struct vx_stream *stream);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* VOXTRAL_H */
