package regrade

import (
	"slices"

	"podgrade/isolation"
	"podgrade/tasks/record"
)

// RowsThatNeed are the rows that were noted with a state layer and whose records
// still name it, by their directories. A row that was moved is noted again by its
// next grade.
func RowsThatNeed(s isolation.State) []string {
	var rows []string
	for _, dir := range s.Rows {
		if needs(dir, s.DiffID) {
			rows = append(rows, dir)
		}
	}
	return rows
}

func needs(dir, diffID string) bool {
	row, err := record.OpenRow(dir)
	if err != nil {
		return false
	}
	defer row.Close()
	rec, _, err := row.Read()
	return err == nil && slices.Contains(record.StateLayers(rec.Environment), diffID)
}
