package store

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

// registerUUID makes pgx read and write a uuid.UUID in its binary form.
func registerUUID(types *pgtype.Map) {
	pgxuuid.Register(types) // writing
	element := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}}
	types.RegisterType(element)
	types.RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: uuidArrayCodec{&pgtype.ArrayCodec{ElementType: element}}})
}

// uuidCodec reads. A uuid.UUID is a sql.Scanner, and for these pgx makes a text first: that was
// 6 % of core's own time where it claims and completes 1,000 jobs at once.
type uuidCodec struct{ pgxuuid.UUIDCodec }

// PlanScan is part of pgtype.Codec.
func (c uuidCodec) PlanScan(types *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return scanUUID{}
	}
	return c.UUIDCodec.PlanScan(types, oid, format, target)
}

type scanUUID struct{}

// Scan is part of pgtype.ScanPlan.
func (scanUUID) Scan(src []byte, target any) error {
	id, ok := target.(*uuid.UUID)
	if !ok || len(src) != len(id) {
		return fmt.Errorf("store: %d bytes are read into %T", len(src), target)
	}
	copy(id[:], src)
	return nil
}

// uuidArrayCodec writes slices of uuid.UUID and of *uuid.UUID. pgx looks for the way to write each of their
// elements by reflection, and makes a text of each *uuid.UUID first: that was over a third of core's own
// CPU time where it works off schedules.
type uuidArrayCodec struct{ *pgtype.ArrayCodec }

// PlanEncode is part of pgtype.Codec.
func (c uuidArrayCodec) PlanEncode(types *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case []uuid.UUID:
			return encodeUUIDs{}
		case []*uuid.UUID:
			return encodeOptionalUUIDs{}
		}
	}
	return c.ArrayCodec.PlanEncode(types, oid, format, value)
}

type encodeUUIDs struct{}

// Encode is part of pgtype.EncodePlan.
func (encodeUUIDs) Encode(value any, buf []byte) ([]byte, error) {
	ids, _ := value.([]uuid.UUID)
	if ids == nil {
		return nil, nil // NULL
	}
	buf = appendArrayHeader(buf, len(ids), false)
	for i := range ids {
		buf = appendElement(buf, &ids[i])
	}
	return buf, nil
}

type encodeOptionalUUIDs struct{}

// Encode is part of pgtype.EncodePlan.
func (encodeOptionalUUIDs) Encode(value any, buf []byte) ([]byte, error) {
	ids, _ := value.([]*uuid.UUID)
	if ids == nil {
		return nil, nil // NULL
	}
	hasNull := false
	for _, id := range ids {
		hasNull = hasNull || id == nil
	}
	buf = appendArrayHeader(buf, len(ids), hasNull)
	for _, id := range ids {
		buf = appendElement(buf, id)
	}
	return buf, nil
}

// appendArrayHeader begins an array of one dimension, as array_recv reads it.
func appendArrayHeader(buf []byte, length int, hasNull bool) []byte {
	const dimensions, firstIndex = 1, 1
	flags := uint32(0)
	if hasNull {
		flags = 1
	}
	buf = binary.BigEndian.AppendUint32(buf, dimensions)
	buf = binary.BigEndian.AppendUint32(buf, flags)
	buf = binary.BigEndian.AppendUint32(buf, pgtype.UUIDOID)
	buf = binary.BigEndian.AppendUint32(buf, uint32(length)) //nolint:gosec // a message of PostgreSQL's is shorter
	return binary.BigEndian.AppendUint32(buf, firstIndex)
}

func appendElement(buf []byte, id *uuid.UUID) []byte {
	if id == nil {
		return binary.BigEndian.AppendUint32(buf, 1<<32-1) // -1: NULL
	}
	return append(binary.BigEndian.AppendUint32(buf, uint32(len(id))), id[:]...)
}
