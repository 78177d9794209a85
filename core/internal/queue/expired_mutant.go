//go:build mutant_reaper_id

package queue

// A deliberately broken rule that the tests must notice. Never built into a program.
//
// The reaper notes ids, and takes those back without another look: one whose
// holder is heard in between loses its lease all the same.
const expiredSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE state = 'running' AND id IN (
  SELECT id FROM jobs
  WHERE state = 'running' AND lease_expires_at < statement_timestamp() AND lease_expires_at >= statement_timestamp() - @reach::interval
    AND (lease_expires_at, id) > (@after::timestamptz, @after_id::uuid)
    AND ` + heardSQL + `
  ORDER BY lease_expires_at, id
  LIMIT @batch)
ORDER BY id
FOR UPDATE`
