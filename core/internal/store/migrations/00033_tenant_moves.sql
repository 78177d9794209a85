-- A tenant can be moved to another cell: see core/internal/move.

-- +goose Up

-- In the home cell: the moves under way. source and target are cells, '' is the home cell.
CREATE TABLE tenant_moves (
  tenant_id   uuid PRIMARY KEY,
  source      text        NOT NULL,
  target      text        NOT NULL,
  phase       text        NOT NULL CHECK (phase IN ('preparing', 'history', 'changes', 'fenced', 'switched', 'removing', 'aborting')),
  started_at  timestamptz NOT NULL,
  switched_at timestamptz
);

-- In each cell: leaving: changes are noted in tenant_changes. left: the tenant's rows are elsewhere, or about to be, and
-- writes are refused. arriving: the same, in the cell that it is moved to. here: it has arrived. A tenant without a
-- row was never moved. Triggers that the move creates read it.
CREATE TABLE tenant_fences (
  tenant_id uuid PRIMARY KEY,
  state     text NOT NULL CHECK (state IN ('leaving', 'left', 'arriving', 'here'))
);

-- In the cell that a tenant is leaving: what has changed of its history since the copying began.
CREATE TABLE tenant_changes (
  change_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id uuid NOT NULL,
  kind      text NOT NULL,
  id        uuid NOT NULL
);
