"""Figures and pages from results. Only the curves of training are computed here."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.report.board_page import draw_board as draw_board, write_board as write_board
    from attomaton.report.csv_tables import write_csv as write_csv
    from attomaton.report.export import unescape_text as unescape_text
    from attomaton.report.graphml import write_graphml as write_graphml
    from attomaton.report.page.write import write_report as write_report
    from attomaton.report.pictures import write_figures as write_figures
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
