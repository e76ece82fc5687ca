package criteria

// Programs of the image that criteria run themselves.
const (
	programPython = "python3"
	programUiPath = "uipath"
)

// Programs names the programs that criteria need in an image.
func Programs() []string { return []string{programPython, programUiPath} }

// lacking is what a criterion makes of a program that the shell did not find. An
// image that has none asks for the author. One that has it, and from which the
// agent took it away, would leave the row without a verdict for ever: so that
// scores 0.0.
func (j *judging) lacking(program, author string) error {
	if j.where.TakenAway != nil {
		if place := j.where.TakenAway(program); place != "" {
			return troublef("FileNotFoundError", "%s could not be started, although the image has it (%s): what the agent left takes it away", program, place)
		}
	}
	return misusef("%s", author)
}
