#!/bin/bash
# Makes encoded/ from clips/: the same speech in compressed formats, and files that are refused or half read.
#
# Needs ffmpeg (with libmp3lame, libvorbis, libopus, libx264); the files in the repository came from version 5.1.9.
# Tests only read them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
out=encoded
rm -rf "$out"
mkdir "$out"

quiet=(-nostdin -hide_banner -loglevel error -y)
# No tags, and nothing that depends on the day or the machine.
plain=(-map_metadata -1 -fflags +bitexact -flags:a +bitexact -flags:v +bitexact)

# convert INPUT OPTIONS... OUTPUT
convert() {
    ffmpeg "${quiet[@]}" -i "${@:1:$#-1}" "${plain[@]}" "${*: -1}"
}

# The nine clips with words and the silent one; noise does not compress.
for clip in clips/0*.wav; do
    name=$(basename "$clip" .wav)
    convert "$clip" -compression_level 12 -metadata_header_padding 0 "$out/$name.flac"
    # MP3 has 192 kbit/s only from 32 kHz on.
    convert "$clip" -ar 44100 -c:a libmp3lame -b:a 192k "$out/$name.mp3"
    convert "$clip" -ar 44100 -c:a libvorbis -q:a 2 "$out/$name.ogg"
    convert "$clip" -ar 44100 -c:a aac -b:a 64k "$out/$name.m4a"
done

clip=clips/02-espeak.wav
for codec in pcm_alaw pcm_mulaw adpcm_ms adpcm_ima_wav; do
    convert "$clip" -c:a "$codec" "$out/$codec.wav"
done
convert "$clip" -ar 44100 -c:a libmp3lame -t 0.1 -b:a 64k "$out/mp3-in-wav.wav"
convert "$clip" -ar 44100 -c:a libmp3lame -q:a 5 -write_xing 0 -id3v2_version 0 "$out/vbr-without-length.mp3"
convert "$clip" -c:a aac -b:a 32k -f adts "$out/stream.aac"
convert "$clip" -c:a libopus -b:a 16k "$out/opus.ogg"
convert "$clip" -t 0.1 -c:a alac "$out/alac.m4a"
convert "$clip" -t 0.02 -c:a pcm_f32be -f caf "$out/core-audio.caf"

# A second of black to go with the speech.
ffmpeg "${quiet[@]}" -f lavfi -i color=c=black:s=64x64:r=5:d=1 -c:v libx264 -pix_fmt yuv420p "${plain[@]}" \
    "$out/video-without-sound.mp4"
convert "$clip" -i "$out/video-without-sound.mp4" -map 1:v -map 0:a -c:v copy -c:a aac -b:a 32k "$out/video.mp4"
convert "$clip" -i "$out/video-without-sound.mp4" -map 1:v -map 0:a -c:v copy -c:a ac3 -ar 48000 -b:a 64k \
    "$out/video-ac3.mp4"
