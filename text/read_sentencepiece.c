/* SPDX-License-Identifier: MIT */
/*
 * tokenizer.model of SentencePiece: a protobuf of the message ModelProto in
 * sentencepiece_model.proto. Fields that change nothing here are skipped.
 */
#include <errno.h>
#include <string.h>

#include "tokenizer_internal.h"

/* A message: the bytes of it that have not been read. */
struct message {
	const char *file;
	unsigned char *begin; /* the first byte of the file */
	unsigned char *at, *end;
};

/* A field: a number, four bytes as a float, or bytes. */
struct field {
	uint32_t number, type;
	uint64_t value;
	float f;
	struct message bytes;
};

enum {
	TYPE_VARINT = 0,
	TYPE_64 = 1,
	TYPE_BYTES = 2,
	TYPE_32 = 5
};

static int message_fail(const struct message *m, const char *what)
{
	return text_fail(-EBADMSG, "%s: byte %zu: %s", m->file,
			 (size_t)(m->at - m->begin), what);
}

static int message_varint(struct message *m, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
		unsigned char c = *m->at++;

		value |= (uint64_t)(c & 0x7f) << shift;
		if (c < 0x80) {
			*ret_value = value;
			return 0;
		}
	}
	return message_fail(m, "a number without end");
}

static int field_bytes(struct message *m, struct field *f)
{
	int r = message_varint(m, &f->value);

	if (r < 0)
		return r;
	if (f->value > (uint64_t)(m->end - m->at))
		return message_fail(m, "a field is longer than its message");
	f->bytes = *m;
	m->at += f->value;
	f->bytes.end = m->at;
	return 0;
}

static int field_fixed(struct message *m, struct field *f, size_t n)
{
	uint32_t bits = 0;

	if (n > (size_t)(m->end - m->at))
		return message_fail(m, "a field is longer than its message");
	for (size_t i = 0; i < 4; i++)
		bits |= (uint32_t)m->at[i] << 8 * i;
	memcpy(&f->f, &bits, sizeof(f->f));
	m->at += n;
	return 0;
}

/* Read the next field. Returns 0 at the end of the message, else 1. */
static int message_field(struct message *m, struct field *ret_field)
{
	struct field *f = ret_field;
	uint64_t tag;
	int r;

	if (m->at == m->end)
		return 0;
	r = message_varint(m, &tag);
	if (r < 0)
		return r;
	f->number = (uint32_t)(tag >> 3);
	f->type = tag & 7;
	if (tag >> 32 || !f->number)
		return message_fail(m, "a field has a wrong number");
	if (f->type == TYPE_VARINT)
		r = message_varint(m, &f->value);
	else if (f->type == TYPE_BYTES)
		r = field_bytes(m, f);
	else if (f->type == TYPE_64 || f->type == TYPE_32)
		r = field_fixed(m, f, f->type == TYPE_64 ? 8 : 4);
	else
		r = message_fail(m, "a field has a wrong type");
	return r < 0 ? r : 1;
}

static bool field_is(const struct field *f, uint32_t number, uint32_t type)
{
	return f->number == number && f->type == type;
}

static int unsupported(const struct message *m, const char *what)
{
	return text_fail(-EOPNOTSUPP, "%s: %s is not supported", m->file, what);
}

/*
 * Add a piece that is found in normalised texts. Spaces are marks there, so
 * that a piece with a space is never found.
 */
static int found_piece(struct tokenizer *t, uint32_t id, unsigned char *s)
{
	struct piece *piece = &t->vocab.piece[id];
	bool space = memchr(s, ' ', piece->len);

	piece->len = (uint32_t)piece_unmark(s, piece->len);
	if (space) {
		piece->flags |= PIECE_HIDDEN;
		return 0;
	}
	return matcher_add(&t->normal, &(struct form){ .s = s,
						       .len = piece->len,
						       .id = id });
}

/* SentencePiece: piece 1, score 2, type 3. */
static int read_piece(struct tokenizer *t, struct message m)
{
	unsigned char *s = m.at;
	uint64_t kind = PIECE_NORMAL;
	uint32_t id = t->vocab.n;
	float score = 0;
	size_t len = 0;
	struct field f;
	int r;

	while ((r = message_field(&m, &f)) > 0) {
		if (field_is(&f, 1, TYPE_BYTES)) {
			s = f.bytes.at;
			len = (size_t)(f.bytes.end - f.bytes.at);
		} else if (field_is(&f, 2, TYPE_32)) {
			score = f.f;
		} else if (field_is(&f, 3, TYPE_VARINT)) {
			kind = f.value;
		}
	}
	if (r < 0)
		return r;
	if (!len || kind < PIECE_NORMAL || kind > PIECE_BYTE)
		return message_fail(&m, len ? "a piece has a wrong type"
					    : "a piece is empty");
	if (kind == PIECE_UNUSED)
		return unsupported(&m, "a piece of type UNUSED");
	if (kind == PIECE_UNKNOWN)
		t->unk = (int32_t)id;
	r = piece_set(t, m.file, id, s, len, (unsigned)kind, score);
	if (r < 0 || kind < PIECE_UNKNOWN || kind > PIECE_USER)
		return r;
	return found_piece(t, id, s);
}

/* TrainerSpec: model_type 3, treat_whitespace_as_suffix 24, ids 40 to 42. */
static int read_trainer(struct tokenizer *t, struct message m)
{
	uint64_t type = 1;
	struct field f;
	int r;

	t->bos = 1;
	t->eos = 2;
	while ((r = message_field(&m, &f)) > 0) {
		if (f.type != TYPE_VARINT)
			continue;
		if (f.number == 3)
			type = f.value;
		else if (f.number == 24 && f.value)
			return unsupported(&m, "a space at the end of words");
		else if (f.number == 41)
			t->bos = (int32_t)f.value;
		else if (f.number == 42)
			t->eos = (int32_t)f.value;
	}
	if (r < 0)
		return r;
	return type == 2 ? 0 : unsupported(&m, "a model other than BPE");
}

/*
 * NormalizerSpec: precompiled_charsmap 2, add_dummy_prefix 3,
 * remove_extra_whitespaces 4, escape_whitespaces 5.
 */
static int read_rules(struct tokenizer *t, struct message m)
{
	struct field f;
	int r;

	while ((r = message_field(&m, &f)) > 0) {
		if (field_is(&f, 2, TYPE_BYTES) && f.value)
			return unsupported(&m, "a map of characters "
					       "(precompiled_charsmap)");
		if (field_is(&f, 3, TYPE_VARINT))
			t->prefix = f.value ? PREFIX_START : PREFIX_NEVER;
		else if (field_is(&f, 4, TYPE_VARINT))
			t->trim = f.value;
		else if (field_is(&f, 5, TYPE_VARINT) && !f.value)
			return unsupported(&m, "a text with spaces as they "
					       "are");
	}
	return r;
}

static int read_fields(struct tokenizer *t, struct message m)
{
	bool trained = false;
	struct field f;
	int r;

	while ((r = message_field(&m, &f)) > 0) {
		if (field_is(&f, 1, TYPE_BYTES))
			r = read_piece(t, f.bytes);
		else if (field_is(&f, 2, TYPE_BYTES))
			r = read_trainer(t, f.bytes);
		else if (field_is(&f, 3, TYPE_BYTES))
			r = read_rules(t, f.bytes);
		if (r < 0)
			return r;
		trained |= f.number == 2;
	}
	if (!r && !trained)
		return unsupported(&m, "a model other than BPE");
	return r;
}

int read_sentencepiece(struct tokenizer *t, const char *file,
		       unsigned char *bytes, size_t n)
{
	int r;

	t->prefix = PREFIX_START;
	t->normal_marks = t->normal_prefix = t->trim = true;
	t->fuse_unk = t->writes_unk = true;
	r = read_fields(t, (struct message){ file, bytes, bytes, bytes + n });
	if (!r && t->unk < 0)
		r = text_fail(-EBADMSG, "%s: there is no unknown token", file);
	if (!r)
		r = vocab_index(&t->vocab, file,
				BIT(PIECE_NORMAL) | BIT(PIECE_USER));
	/* The file does not say this, but programs that read it do it. */
	t->adds_bos = t->bos >= 0;
	return r;
}
