-- An installation may have several databases, its cells.

-- +goose Up

-- In the home cell: the cell that has the tenant's jobs; null is the home cell itself.
ALTER TABLE tenants ADD COLUMN cell text;

-- Which cell this database is, so that a wrong connection string is refused. It is empty where there
-- is one database; otherwise it has one row.
CREATE TABLE this_cell (
  one          boolean PRIMARY KEY DEFAULT true CHECK (one),
  name         text    NOT NULL,
  -- drawn by the home cell, the same in all cells of an installation
  installation uuid    NOT NULL,
  home         boolean NOT NULL
);
