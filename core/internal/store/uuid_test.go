package store

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// Slices of ids are written as pgx writes them, byte by byte.
func TestUUIDArrays(t *testing.T) {
	t.Parallel()
	ours, theirs := pgtype.NewMap(), pgtype.NewMap()
	registerUUID(ours)
	a, b := uuid.New(), uuid.New()
	for name, value := range map[string]struct{ ours, theirs any }{
		"two":           {[]uuid.UUID{a, b}, [][16]byte{a, b}},
		"none":          {[]uuid.UUID{}, [][16]byte{}},
		"nil":           {[]uuid.UUID(nil), [][16]byte(nil)},
		"pointers":      {[]*uuid.UUID{&a, &b}, [][16]byte{a, b}},
		"with NULLs":    {[]*uuid.UUID{nil, &a, nil}, []pgtype.UUID{{}, {Bytes: a, Valid: true}, {}}},
		"no pointers":   {[]*uuid.UUID{}, [][16]byte{}},
		"nil, pointers": {[]*uuid.UUID(nil), [][16]byte(nil)},
	} {
		got, err := ours.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, value.ours, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := theirs.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, value.theirs, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
	}
	plan := ours.PlanEncode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, []*uuid.UUID{})
	if _, ok := plan.(encodeOptionalUUIDs); !ok {
		t.Errorf("[]*uuid.UUID is written by %T", plan)
	}
}

// go test ./core/internal/store -run xxx -bench UUIDArray
func BenchmarkUUIDArray(b *testing.B) {
	types := pgtype.NewMap()
	registerUUID(types)
	ids := make([]*uuid.UUID, 100)
	for i := range ids {
		id := uuid.New()
		ids[i] = &id
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = types.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, ids, buf[:0])
	}
}
